package report

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
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

// The measures of a chart, in pixels.
const (
	chartWidth  = 900
	labelWidth  = 230
	textWidth   = 180
	barHeight   = 13
	barGap      = 2
	groupGap    = 14
	headHeight  = 62
	footHeight  = 44
	plotWidth   = chartWidth - labelWidth - textWidth
	legendWidth = 200
)

// style makes a chart readable on a light and on a dark page.
const style = `
  text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
  .title { font-size: 15px; font-weight: 600; }
  .quiet { fill: #59636e; }
  .grid { stroke: #d1d9e0; stroke-width: 1; }
  .s0 { fill: #8c959f; } .s1 { fill: #bf8700; } .s2 { fill: #0969da; } .s3 { fill: #1a7f37; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .quiet { fill: #9198a1; }
    .grid { stroke: #3d444d; }
    .s0 { fill: #848d97; } .s1 { fill: #d29922; } .s2 { fill: #4493f8; } .s3 { fill: #3fb950; }
  }
`

// SVG draws the chart. The result is well-formed XML, whatever the texts are.
func (c Chart) SVG() string {
	low, high := c.decades()
	x := func(value float64) float64 {
		return math.Max(0, (math.Log10(value)-low)/(high-low)) * plotWidth
	}
	plotHeight := 0
	for _, group := range c.Groups {
		plotHeight += len(group.Bars)*(barHeight+barGap) + groupGap
	}
	height := headHeight + plotHeight + footHeight
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n",
		chartWidth, height, chartWidth, height, escape(c.Title))
	fmt.Fprintf(&b, "<style>%s</style>\n", style)
	fmt.Fprintf(&b, `<text class="title" x="8" y="22">%s</text>`+"\n", escape(c.Title))
	for i, name := range c.Legend {
		fmt.Fprintf(&b, `<rect class="s%d" x="%d" y="36" width="12" height="12" rx="2"/><text x="%d" y="46">%s</text>`+"\n",
			i, 8+i*legendWidth, 26+i*legendWidth, escape(name))
	}
	for decade := low; decade <= high; decade++ {
		at := labelWidth + x(math.Pow(10, decade))
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, at, headHeight, at, headHeight+plotHeight)
		fmt.Fprintf(&b, `<text class="quiet" text-anchor="middle" x="%.1f" y="%d">%s</text>`+"\n", at, headHeight+plotHeight+16, power(decade))
	}
	fmt.Fprintf(&b, `<text class="quiet" text-anchor="middle" x="%d" y="%d">%s</text>`+"\n",
		labelWidth+plotWidth/2, headHeight+plotHeight+34, escape(c.Unit))
	c.drawGroups(&b, x)
	b.WriteString("</svg>\n")
	return b.String()
}

func (c Chart) drawGroups(b *strings.Builder, x func(float64) float64) {
	y := headHeight + groupGap/2
	for _, group := range c.Groups {
		middle := y + len(group.Bars)*(barHeight+barGap)/2 + 4
		fmt.Fprintf(b, `<text text-anchor="end" x="%d" y="%d">%s</text>`+"\n", labelWidth-10, middle, escape(group.Label))
		for _, bar := range group.Bars {
			width := 0.0
			if bar.Value > 0 {
				width = math.Max(1, x(bar.Value))
			}
			opacity := 1.0
			if bar.Open {
				opacity = 0.5
			}
			fmt.Fprintf(b, `<rect class="s%d" x="%d" y="%d" width="%.1f" height="%d" rx="2" opacity="%.1f"/>`,
				bar.Series, labelWidth, y, width, barHeight, opacity)
			fmt.Fprintf(b, `<text x="%.1f" y="%d">%s</text>`+"\n", labelWidth+width+6, y+barHeight-3, escape(bar.Text))
			y += barHeight + barGap
		}
		y += groupGap
	}
}

// decades returns the powers of ten between which all values are. Zeros have no place on a logarithmic scale: their bars are
// empty.
func (c Chart) decades() (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, group := range c.Groups {
		for _, bar := range group.Bars {
			if bar.Value > 0 {
				low, high = math.Min(low, math.Log10(bar.Value)), math.Max(high, math.Log10(bar.Value))
			}
		}
	}
	if math.IsInf(low, 0) {
		return 0, 1
	}
	low, high = math.Floor(low), math.Ceil(high)
	if low == high {
		high++
	}
	return low, high
}

// power writes a power of ten.
func power(decade float64) string {
	if decade < 0 {
		return fmt.Sprintf("%.*f", int(-decade), math.Pow(10, decade))
	}
	return grouped(int64(math.Pow(10, decade)))
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // to memory
	return b.String()
}
