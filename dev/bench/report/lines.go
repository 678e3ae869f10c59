package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
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
	// Series is the place of the line's name in the legend, and At that of the tick.
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

const lineStyle = `
  .line { fill: none; stroke-width: 2; }
  .l0 { stroke: #0969da; } .l1 { stroke: #1a7f37; }
  .t0 { fill: #0969da; } .t1 { fill: #1a7f37; }
  .open { fill: none; stroke-width: 2; }
  .one { stroke: #59636e; stroke-width: 1; stroke-dasharray: 5 3; }
  .break { stroke: #bf8700; stroke-width: 1.5; stroke-dasharray: 2 3; }
  .small { font-size: 11px; }
  @media (prefers-color-scheme: dark) {
    .l0 { stroke: #4493f8; } .l1 { stroke: #3fb950; }
    .t0 { fill: #4493f8; } .t1 { fill: #3fb950; }
    .one { stroke: #9198a1; }
    .break { stroke: #d29922; }
  }
`

// SVG draws the chart. The result is well-formed XML, whatever the texts are.
func (l Lines) SVG() string {
	rows := (len(l.Panels) + panelColumns - 1) / panelColumns
	height := headHeight + rows*panelHeight + 18*len(l.Breaks) + 8
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n",
		chartWidth, height, chartWidth, height, escape(l.Title))
	fmt.Fprintf(&b, "<style>%s%s</style>\n", style, lineStyle)
	fmt.Fprintf(&b, `<text class="title" x="8" y="22">%s</text>`+"\n", escape(l.Title))
	for i, name := range l.Legend {
		fmt.Fprintf(&b, `<circle class="t%d" cx="14" cy="42" r="5" transform="translate(%d 0)"/><text x="%d" y="46">%s</text>`+"\n",
			i, i*legendWidth, 26+i*legendWidth, escape(name))
	}
	at := len(l.Legend) * legendWidth
	fmt.Fprintf(&b, `<line class="one" x1="%d" y1="42" x2="%d" y2="42"/><text x="%d" y="46">× 1: %s</text>`+"\n", at+4, at+32, at+38, escape(l.One))
	for i, panel := range l.Panels {
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n", i%panelColumns*panelWidth, headHeight+i/panelColumns*panelHeight)
		l.drawPanel(&b, panel)
		b.WriteString("</g>\n")
	}
	for i, one := range l.Breaks {
		y := headHeight + rows*panelHeight + 18*i + 10
		fmt.Fprintf(&b, `<line class="break" x1="8" y1="%d" x2="36" y2="%d"/>`, y-4, y-4)
		fmt.Fprintf(&b, `<text class="quiet" x="42" y="%d">%s: does not compare with what is left of it</text>`+"\n", y, escape(one.Why))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// drawPanel draws a panel at the origin.
func (l Lines) drawPanel(b *strings.Builder, panel Panel) {
	low, high := panel.scale()
	y := func(value float64) float64 {
		return panelHead + panelRoom*(1-math.Log(value/low)/math.Log(high/low))
	}
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", panelAxis, panelHead-10, escape(panel.Label))
	for decade := math.Ceil(math.Log10(low)); decade <= math.Log10(high); decade++ {
		at := y(math.Pow(10, decade))
		fmt.Fprintf(b, `<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, panelAxis, at, panelAxis+panelPlot, at)
	}
	for _, value := range slices.Compact([]float64{low, 1, high}) {
		class := "grid"
		if value == 1 {
			class = "one"
		}
		fmt.Fprintf(b, `<line class="%s" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, class, panelAxis, y(value), panelAxis+panelPlot, y(value))
		fmt.Fprintf(b, `<text class="quiet small" text-anchor="end" x="%d" y="%.1f">× %g</text>`+"\n", panelAxis-6, y(value)+4, value)
	}
	for _, one := range l.Breaks {
		middle := (l.x(one.Before-1) + l.x(one.Before)) / 2
		fmt.Fprintf(b, `<line class="break" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`+"\n", middle, panelHead, middle, panelHead+panelRoom)
	}
	step := l.tickStep()
	for i, text := range l.Ticks {
		if (len(l.Ticks)-1-i)%step == 0 {
			fmt.Fprintf(b, `<text class="quiet small" text-anchor="middle" x="%.1f" y="%d">%s</text>`+"\n", l.x(i), panelHead+panelRoom+15, escape(text))
		}
	}
	l.drawLines(b, panel, y)
}

// drawLines draws the points of a panel, what connects them, and the value of the last one of each line.
func (l Lines) drawLines(b *strings.Builder, panel Panel, y func(float64) float64) {
	last := map[int]Point{}
	for _, point := range panel.Points {
		x, at := l.x(point.At), y(point.Value)
		if before, found := last[point.Series]; found && l.connects(before.At, point.At) {
			fmt.Fprintf(b, `<line class="line l%d" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, point.Series, l.x(before.At), y(before.Value), x, at)
		}
		class := fmt.Sprintf("t%d", point.Series)
		if point.Open {
			class = fmt.Sprintf("open l%d", point.Series)
		}
		fmt.Fprintf(b, `<circle class="%s" cx="%.1f" cy="%.1f" r="3.5"/>`+"\n", class, x, at)
		last[point.Series] = point
	}
	heights := map[int]float64{}
	for series, point := range last {
		heights[series] = y(point.Value)
	}
	spaced := spread(heights, lineText)
	for _, series := range slices.Sorted(maps.Keys(spaced)) {
		height := spaced[series]
		fmt.Fprintf(b, `<text class="small t%d" x="%d" y="%.1f">%s</text>`+"\n", series, panelAxis+panelPlot+4, height+4, escape(last[series].Text))
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

// tickStep is how many places share one text, so that texts do not touch.
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
