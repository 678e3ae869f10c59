package report

import (
	"fmt"
	"math"
)

// Chart is a bar chart: groups of bars from left to right, on a logarithmic scale, because the slowest take a hundred times as
// long as the fastest.
type Chart struct {
	// Title is above the chart, and Unit below its axis.
	Title, Unit string
	// Legend names the bars of a group, in their order.
	Legend []string
	Groups []Group
}

// Group are the bars of one scenario.
type Group struct {
	Label string
	// Bars are in the order of the legend. A group may leave bars out.
	Bars []Bar
}

// Bar is one value.
type Bar struct {
	// Series is the place of the bar's name in the legend.
	Series int
	Value  float64
	// Text is the value as it is written beside the bar.
	Text string
	// Open says that the true value is larger, and not known.
	Open bool
}

// The measures of a bar chart, in pixels.
const (
	labelWidth = 230
	textWidth  = 180
	barHeight  = 13
	barGap     = 2
	groupGap   = 14
	footHeight = 44
	barsWidth  = chartWidth - labelWidth - textWidth
	keyWidth   = 178
)

// SVG draws the chart.
func (c Chart) SVG() string {
	foot := headHeight
	var values []float64
	for _, group := range c.Groups {
		foot += len(group.Bars)*(barHeight+barGap) + groupGap
		for _, bar := range group.Bars {
			values = append(values, bar.Value)
		}
	}
	drawn, bottom := newSVG(c.Title, foot+footHeight), float64(foot)
	for i, name := range c.Legend {
		drawn.key(i, float64(8+i*keyWidth), name)
	}
	across := newScale(values).whole()
	across.decades(func(value float64, text string) {
		x := labelWidth + across.place(value)*barsWidth
		drawn.line("grid", x, headHeight, x, bottom)
		drawn.text("quiet middle", x, bottom+16, text)
	})
	drawn.text("quiet middle", labelWidth+barsWidth/2, bottom+34, c.Unit)
	y := float64(headHeight + groupGap/2)
	for _, group := range c.Groups {
		drawn.text("end", labelWidth-10, y+float64(len(group.Bars))*(barHeight+barGap)/2+4, group.Label)
		for _, bar := range group.Bars {
			drawn.bar(bar, across, y)
			y += barHeight + barGap
		}
		y += groupGap
	}
	return drawn.end()
}

// bar draws a bar with its text. The bar of a zero is empty, and the bar of the smallest other value is not.
func (s *svg) bar(bar Bar, across scale, y float64) {
	class, width := fmt.Sprintf("s%d", bar.Series), 0.0
	if bar.Open {
		class += " half"
	}
	if bar.Value > 0 {
		width = math.Max(1, across.place(bar.Value)*barsWidth)
	}
	s.rect(class, labelWidth, y, width, barHeight)
	s.text("", labelWidth+width+6, y+barHeight-3, bar.Text)
}
