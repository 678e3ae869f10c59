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
	lineWidth   = 900
	lineHeight  = 420
	lineLeft    = 70
	lineRight   = 120
	lineTop     = 74
	lineBottom  = 50
	linesAcross = lineWidth - lineLeft - lineRight
	linesUp     = lineHeight - lineTop - lineBottom
	mostStyled  = 4
	lineLegend  = 290
	textBeside  = 8
	textAbove   = -8
	textBelow   = 18
)

// growthStyle adds to style what lines need.
const growthStyle = `
  .l0 { stroke: #0969da; } .l1 { stroke: #1a7f37; } .l2 { stroke: #bf8700; } .l3 { stroke: #8c959f; }
  .s0 { fill: #0969da; } .s1 { fill: #1a7f37; } .s2 { fill: #bf8700; } .s3 { fill: #8c959f; }
  polyline { fill: none; stroke-width: 2; }
  .linear { stroke: #59636e; stroke-dasharray: 5 5; }
`

// SVG draws the chart. The result is well-formed XML, whatever the texts are.
func (c LineChart) SVG() string {
	size, value := c.scales()
	x := func(at float64) float64 { return lineLeft + size.place(at)*linesAcross }
	y := func(at float64) float64 { return lineTop + (1-value.place(at))*linesUp }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n",
		lineWidth, lineHeight, lineWidth, lineHeight, escape(c.Title))
	fmt.Fprintf(&b, "<style>%s%s</style>\n", style, growthStyle)
	fmt.Fprintf(&b, `<text class="title" x="8" y="22">%s</text>`+"\n", escape(c.Title))
	for decade := math.Ceil(value.low); decade <= value.high; decade++ {
		at := y(math.Pow(10, decade))
		fmt.Fprintf(&b, `<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, lineLeft, at, lineLeft+linesAcross, at)
		fmt.Fprintf(&b, `<text class="quiet" text-anchor="end" x="%d" y="%.1f">%s</text>`+"\n", lineLeft-8, at+4, power(decade))
	}
	for _, at := range c.sizes() {
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, x(at), lineTop, x(at), lineTop+linesUp)
		fmt.Fprintf(&b, `<text class="quiet" text-anchor="middle" x="%.1f" y="%d">%s</text>`+"\n", x(at), lineTop+linesUp+18, grouped(int64(at)))
	}
	fmt.Fprintf(&b, `<text class="quiet" text-anchor="middle" x="%d" y="%d">%s</text>`+"\n", lineLeft+linesAcross/2, lineTop+linesUp+38, escape(c.Across))
	c.drawLinear(&b, x, y, math.Pow(10, value.high))
	for i, line := range c.Lines {
		drawLine(&b, i%mostStyled, line, c.textAt(i), x, y)
		fmt.Fprintf(&b, `<rect class="s%d" x="%d" y="40" width="12" height="12" rx="2"/><text x="%d" y="50">%s</text>`+"\n",
			i%mostStyled, 8+i*lineLegend, 26+i*lineLegend, escape(line.Label))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// textAt returns how far below its points the texts of a line are. Of the first two, which may be close, one has them above and the other below;
// all others have them where these are not.
func (c LineChart) textAt(line int) int {
	first, this := c.Lines[0].Points, c.Lines[line].Points
	if line == 1 || line > 1 && len(first) > 0 && len(this) > 0 && this[0].Value < first[0].Value {
		return textBelow
	}
	return textAbove
}

func drawLine(b *strings.Builder, series int, line Line, textAt int, x, y func(float64) float64) {
	var corners []string
	for _, point := range line.Points {
		if point.Value > 0 {
			corners = append(corners, fmt.Sprintf("%.1f,%.1f", x(point.Size), y(point.Value)))
			fmt.Fprintf(b, `<circle class="s%d" cx="%.1f" cy="%.1f" r="4"/>`, series, x(point.Size), y(point.Value))
			fmt.Fprintf(b, `<text x="%.1f" y="%.1f">%s</text>`+"\n", x(point.Size)+textBeside, y(point.Value)+float64(textAt), escape(point.Text))
		}
	}
	fmt.Fprintf(b, `<polyline class="l%d" points="%s"/>`+"\n", series, strings.Join(corners, " "))
}

// drawLinear draws what linear growth of the first line would be, up to the top of the chart.
func (c LineChart) drawLinear(b *strings.Builder, x, y func(float64) float64, top float64) {
	sizes := c.sizes()
	if len(sizes) < 2 || len(c.Lines[0].Points) == 0 || c.Lines[0].Points[0].Value <= 0 {
		return
	}
	first, last := c.Lines[0].Points[0], sizes[len(sizes)-1]
	end := math.Min(last, top/first.Value*first.Size)
	fmt.Fprintf(b, `<line class="linear" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n",
		x(first.Size), y(first.Value), x(end), y(first.Value*end/first.Size))
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

// scale is a logarithmic scale between two powers of ten, which need not be whole.
type scale struct{ low, high float64 }

// place returns where a value is between the ends of the scale: from 0 to 1.
func (s scale) place(value float64) float64 { return (math.Log10(value) - s.low) / (s.high - s.low) }

// scales returns those of sizes, which end with the smallest and the largest, and of values, which end with powers of ten.
func (c LineChart) scales() (size, value scale) {
	size, value = scale{math.Inf(1), math.Inf(-1)}, scale{math.Inf(1), math.Inf(-1)}
	for _, line := range c.Lines {
		for _, point := range line.Points {
			if point.Value > 0 {
				size = scale{math.Min(size.low, math.Log10(point.Size)), math.Max(size.high, math.Log10(point.Size))}
				value = scale{math.Min(value.low, math.Log10(point.Value)), math.Max(value.high, math.Log10(point.Value))}
			}
		}
	}
	if math.IsInf(size.low, 0) {
		return scale{0, 1}, scale{0, 1}
	}
	value = scale{math.Floor(value.low), math.Ceil(value.high)}
	if size.low == size.high {
		size.high++
	}
	if value.low == value.high {
		value.high++
	}
	return size, value
}
