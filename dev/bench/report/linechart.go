package report

import (
	"fmt"
	"math"
	"strings"
)

// LineChart shows values over sizes, both on logarithmic scales: what grows as its size is parallel to the dashed line, and what grows faster
// is steeper.
type LineChart struct {
	// Title is above the chart, and Across below its axis.
	Title, Across string
	Lines         []Line
}

// Line is one series of values.
type Line struct {
	Label  string
	Points []LinePoint
}

// LinePoint is one value, with Text at it. Points without a positive value are not drawn: they have no place on a logarithmic scale.
type LinePoint struct {
	Size, Value float64
	Text        string
}

// The measures of a line chart, in pixels.
const (
	lineHeight  = 420
	lineLeft    = 70
	lineRight   = 120
	lineTop     = 74
	lineBottom  = lineHeight - 50
	linesAcross = chartWidth - lineLeft - lineRight
	linesUp     = lineBottom - lineTop
	lineLegend  = 290
	textAbove   = -8
	textBelow   = 18
)

// lineColors are the series of style in the order of lines.
var lineColors = []int{2, 3, 1, 0}

// SVG draws the chart.
func (c LineChart) SVG() string {
	var values []float64
	for _, line := range c.Lines {
		for _, point := range line.Points {
			values = append(values, point.Value)
		}
	}
	size, value := newScale(c.sizes()), newScale(values).whole()
	x := func(at float64) float64 { return lineLeft + size.place(at)*linesAcross }
	y := func(at float64) float64 { return lineBottom - value.place(at)*linesUp }
	drawn := newSVG(c.Title, lineHeight)
	value.decades(func(at float64, text string) {
		drawn.line("grid", lineLeft, y(at), lineLeft+linesAcross, y(at))
		drawn.text("quiet end", lineLeft-8, y(at)+4, text)
	})
	for _, at := range c.sizes() {
		drawn.line("grid", x(at), lineTop, x(at), lineBottom)
		drawn.text("quiet middle", x(at), lineBottom+18, grouped(int64(at)))
	}
	drawn.text("quiet middle", lineLeft+linesAcross/2, lineBottom+38, c.Across)
	if sizes := c.sizes(); len(sizes) > 1 && len(c.Lines[0].Points) > 0 && c.Lines[0].Points[0].Value > 0 {
		first := c.Lines[0].Points[0]
		end := math.Min(sizes[len(sizes)-1], math.Pow(10, value.high)/first.Value*first.Size)
		drawn.line("one", x(first.Size), y(first.Value), x(end), y(first.Value*end/first.Size))
	}
	for i, line := range c.Lines {
		series, corners := lineColors[i%len(lineColors)], ""
		for _, point := range line.Points {
			if point.Value > 0 {
				corners += fmt.Sprintf(" %.1f,%.1f", x(point.Size), y(point.Value))
				drawn.circle(fmt.Sprintf("s%d", series), x(point.Size), y(point.Value), 4)
				drawn.text("", x(point.Size)+8, y(point.Value)+c.textAt(point, y(point.Value)), point.Text)
			}
		}
		fmt.Fprintf(drawn, `<polyline class="l%d" points="%s"/>`+"\n", series, strings.TrimSpace(corners))
		drawn.key(series, float64(8+i*lineLegend), line.Label)
	}
	return drawn.end()
}

// textAt returns how far below a point, which is drawn at y, its text is. It is on the side where the next line is farther away, and does not
// touch the texts below the chart.
func (c LineChart) textAt(point LinePoint, y float64) float64 {
	above, below := math.Inf(1), math.Inf(1)
	for _, line := range c.Lines {
		for _, other := range line.Points {
			switch ratio := other.Value / point.Value; {
			case other.Size != point.Size || other.Value <= 0:
			case ratio > 1:
				above = math.Min(above, ratio)
			case ratio < 1:
				below = math.Min(below, 1/ratio)
			}
		}
	}
	if above < below && y+textBelow < lineBottom {
		return textBelow
	}
	return textAbove
}

// sizes returns all sizes, from the smallest on: those of the line that has most of them.
func (c LineChart) sizes() []float64 {
	var sizes []float64
	for _, line := range c.Lines {
		if len(line.Points) > len(sizes) {
			sizes = nil
			for _, point := range line.Points {
				sizes = append(sizes, point.Size)
			}
		}
	}
	return sizes
}
