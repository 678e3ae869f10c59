package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// Lines is a chart of panels, each with lines from left to right over the same ticks. Each panel has a logarithmic scale of its own,
// because what changes little in one would not be seen on the scale of another.
type Lines struct {
	// Title is above the chart.
	Title string
	// Legend names the lines of a panel, in their order, and One the line at 1.
	Legend []string
	One    string
	// Ticks are the texts below each panel, one for each place.
	Ticks  []string
	Panels []Panel
	// Breaks are where lines are interrupted.
	Breaks []Break
}

// Panel is what one scenario shows.
type Panel struct {
	Label string
	// Points of a line are in the order of their places. A line may leave places out.
	Points []Point
}

// Point is one value.
type Point struct {
	// Series is the index of the line's name in the legend, and At the index of the tick.
	Series, At int
	// Value is above 0.
	Value float64
	// Text is the value as it is written beside the last point of a line.
	Text string
	// Open says that the value is only a bound.
	Open bool
}

// Break is between a place and the one before it: values on both sides do not compare.
type Break struct {
	Before int
	Why    string
}

// The measures of a chart of lines, in pixels.
const (
	panelColumns  = 2
	panelWidth    = chartWidth / panelColumns
	panelAxis     = 54
	panelText     = 78
	panelPlot     = panelWidth - panelAxis - panelText
	panelInset    = 14
	panelHead     = 30
	panelRoom     = 90
	panelFoot     = 34
	panelHeight   = panelHead + panelRoom + panelFoot
	tickCharacter = 7
	lineText      = 13
)

// SVG draws the chart.
func (l Lines) SVG() string {
	rows := (len(l.Panels) + panelColumns - 1) / panelColumns
	foot := headHeight + rows*panelHeight
	drawn := newSVG(l.Title, foot+18*len(l.Breaks)+8)
	for i, name := range l.Legend {
		drawn.key(lineColors[i], float64(8+i*keyWidth), name)
	}
	at := float64(len(l.Legend) * keyWidth)
	drawn.line("one", at+4, keyY-4, at+32, keyY-4)
	drawn.text("", at+38, keyY, "× 1: "+l.One)
	for i, panel := range l.Panels {
		fmt.Fprintf(drawn, `<g transform="translate(%d %d)">`+"\n", i%panelColumns*panelWidth, headHeight+i/panelColumns*panelHeight)
		l.drawPanel(drawn, panel)
		drawn.WriteString("</g>\n")
	}
	for i, one := range l.Breaks {
		y := float64(foot + 18*i + 10)
		drawn.line("break", 8, y-4, 36, y-4)
		drawn.text("quiet", 42, y, one.Why+": does not compare with what is left of it")
	}
	return drawn.end()
}

// drawPanel draws a panel at the origin.
func (l Lines) drawPanel(drawn *svg, panel Panel) {
	low, high := panel.scale()
	scale := newScale([]float64{low, high})
	y := func(value float64) float64 { return panelHead + panelRoom*(1-scale.place(value)) }
	drawn.text("", panelAxis, panelHead-10, panel.Label)
	scale.decades(func(at float64, _ string) { drawn.line("grid", panelAxis, y(at), panelAxis+panelPlot, y(at)) })
	for _, value := range slices.Compact([]float64{low, 1, high}) {
		class := "grid"
		if value == 1 {
			class = "one"
		}
		drawn.line(class, panelAxis, y(value), panelAxis+panelPlot, y(value))
		drawn.text("quiet small end", panelAxis-6, y(value)+4, fmt.Sprintf("× %g", value))
	}
	for _, one := range l.Breaks {
		middle := (l.x(one.Before-1) + l.x(one.Before)) / 2
		drawn.line("break", middle, panelHead, middle, panelHead+panelRoom)
	}
	step := l.tickStep()
	for i, text := range l.Ticks {
		if (len(l.Ticks)-1-i)%step == 0 {
			drawn.text("quiet small middle", l.x(i), panelHead+panelRoom+15, text)
		}
	}
	l.drawLines(drawn, panel, y)
}

// drawLines draws the points of a panel, what connects them, and the value of the last one of each line.
func (l Lines) drawLines(drawn *svg, panel Panel, y func(float64) float64) {
	last := map[int]Point{}
	for _, point := range panel.Points {
		x, at, series := l.x(point.At), y(point.Value), lineColors[point.Series]
		if before, found := last[point.Series]; found && l.connects(before.At, point.At) {
			drawn.line(fmt.Sprintf("line l%d", series), l.x(before.At), y(before.Value), x, at)
		}
		class := fmt.Sprintf("s%d", series)
		if point.Open {
			class = fmt.Sprintf("open l%d", series)
		}
		drawn.circle(class, x, at, 3.5)
		last[point.Series] = point
	}
	heights := map[int]float64{}
	for series, point := range last {
		heights[series] = y(point.Value)
	}
	spaced := spread(heights, lineText)
	for _, series := range slices.Sorted(maps.Keys(spaced)) {
		drawn.text(fmt.Sprintf("small s%d", lineColors[series]), panelAxis+panelPlot+4, spaced[series]+4, last[series].Text)
	}
}

// connects reports whether a line goes on from a place to a later one: not over a break, nor over a place that it leaves out.
func (l Lines) connects(from, to int) bool {
	return to == from+1 && !slices.ContainsFunc(l.Breaks, func(one Break) bool { return one.Before == to })
}

// x is where a place is: all have the same distance, and a single one stands in the middle.
func (l Lines) x(place int) float64 {
	if len(l.Ticks) < 2 {
		return panelAxis + panelPlot/2
	}
	return panelAxis + panelInset + (panelPlot-2*panelInset)*float64(place)/float64(len(l.Ticks)-1)
}

// tickStep is how many places share one text, so texts do not touch.
func (l Lines) tickStep() int {
	longest := 0
	for _, text := range l.Ticks {
		longest = max(longest, len(text))
	}
	if len(l.Ticks) < 2 {
		return 1
	}
	room := float64(panelPlot-2*panelInset) / float64(len(l.Ticks)-1)
	return max(1, int(math.Ceil(float64((longest+1)*tickCharacter)/room)))
}

// scale returns the values at the bottom and the top of a panel: 1, 2 or 5 times a power of ten, with 1 and all values between them.
func (p Panel) scale() (low, high float64) {
	low, high = 1, 1
	for _, point := range p.Points {
		low, high = min(low, point.Value), max(high, point.Value)
	}
	low, high = stepBelow(low), 1/stepBelow(1/high)
	if low == high {
		return 0.5, 2
	}
	return low, high
}

// stepBelow returns the largest of 1, 2 and 5 times a power of ten that is not above a value.
func stepBelow(value float64) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(value)))
	for _, digit := range []float64{5, 2, 1} {
		if digit*decade <= value {
			return digit * decade
		}
	}
	return decade
}

// spread moves two heights apart that are closer than a line of text, and keeps their order.
func spread(heights map[int]float64, least float64) map[int]float64 {
	a, b := heights[0], heights[1]
	if len(heights) < 2 || math.Abs(a-b) >= least {
		return heights
	}
	middle, half := (a+b)/2, least/2
	if a <= b {
		return map[int]float64{0: middle - half, 1: middle + half}
	}
	return map[int]float64{0: middle + half, 1: middle - half}
}
