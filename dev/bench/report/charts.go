package report

import (
	"fmt"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
)

// Charts returns the charts of a report by the names of their files.
func Charts(measured figures.Report) map[string]Chart {
	return map[string]Chart{
		"time.svg": chart(measured, "Time until it is done (less is better)", "seconds, logarithmic",
			func(result figures.Result) (float64, string) { return result.Seconds, timeText(result) },
			func(scenario string) bool { return !rests(scenario) }),
		"calls.svg": chart(measured, "Calls of the cloud (less is better)", "calls, logarithmic",
			func(result figures.Result) (float64, string) {
				text := grouped(result.Received())
				if refused := result.Refused(); refused > 0 {
					text += fmt.Sprintf(", %s refused", grouped(refused))
				}
				return float64(result.Received()), text
			}, everything),
		"writes.svg": chart(measured, "Writes to the API server (less is better)", "writes, logarithmic",
			func(result figures.Result) (float64, string) {
				return float64(result.Written()), grouped(int64(result.Written()))
			}, everything),
		"cpu.svg": chart(measured, "Processor time of the manager (less is better)", "seconds, logarithmic",
			func(result figures.Result) (float64, string) { return result.CPUSeconds, seconds(result.CPUSeconds) }, everything),
	}
}

func everything(string) bool { return true }

// rests reports whether the time of a scenario says nothing, because it is how long nothing happens.
func rests(scenario string) bool { return scenario == "idle" || scenario == "steady-5000" }

func chart(measured figures.Report, title, unit string, value func(figures.Result) (float64, string), shows func(string) bool) Chart {
	drawn := Chart{Title: title, Unit: unit}
	variants := measured.VariantNames()
	for _, name := range variants {
		drawn.Legend = append(drawn.Legend, titleOf(measured, name))
	}
	for _, scenario := range measured.Scenarios() {
		if !shows(scenario) {
			continue
		}
		group := Group{Label: scenario}
		for series, variant := range variants {
			if result, found := measured.Find(scenario, variant); found {
				number, text := value(result)
				group.Bars = append(group.Bars, Bar{Series: series, Value: number, Text: text, Open: !result.Complete})
			}
		}
		drawn.Groups = append(drawn.Groups, group)
	}
	return drawn
}

func titleOf(measured figures.Report, variant string) string {
	for _, one := range measured.Setup.Variants {
		if one.Name == variant {
			return one.Title
		}
	}
	return variant
}
