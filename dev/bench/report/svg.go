package report

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
)

// svg is a drawing as it is written. Its classes are those of style.
type svg struct{ strings.Builder }

// style makes a chart readable on a light and on a dark page. Series have a color as s0 to s4 where they are filled, and as l0 to l3 where
// they are lines.
const style = `<style>
  text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
  .title { font-size: 15px; font-weight: 600; }
  .small { font-size: 11px; }
  .middle { text-anchor: middle; }
  .end { text-anchor: end; }
  .quiet { fill: #59636e; }
  .half { opacity: 0.5; }
  .line, .open, polyline { fill: none; stroke-width: 2; }
  .grid { stroke: #d1d9e0; }
  .one { stroke: #59636e; stroke-dasharray: 5 3; }
  .break { stroke: #bf8700; stroke-width: 1.5; stroke-dasharray: 2 3; }
  .s0 { fill: #8c959f; } .s1 { fill: #bf8700; } .s2 { fill: #0969da; } .s3 { fill: #1a7f37; } .s4 { fill: #8250df; }
  .l0 { stroke: #8c959f; } .l1 { stroke: #bf8700; } .l2 { stroke: #0969da; } .l3 { stroke: #1a7f37; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .quiet { fill: #9198a1; }
    .grid { stroke: #3d444d; }
    .one { stroke: #9198a1; }
    .break { stroke: #d29922; }
    .s0 { fill: #848d97; } .s1 { fill: #d29922; } .s2 { fill: #4493f8; } .s3 { fill: #3fb950; } .s4 { fill: #ab7df8; }
    .l0 { stroke: #848d97; } .l1 { stroke: #d29922; } .l2 { stroke: #4493f8; } .l3 { stroke: #3fb950; }
  }
</style>
`

// The measures that charts share, in pixels.
const (
	chartWidth = 900
	headHeight = 62
	keyY       = 46
)

// newSVG begins a drawing with its title. The result is well-formed XML, whatever the texts are.
func newSVG(title string, height int) *svg {
	s := &svg{}
	fmt.Fprintf(s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n%s",
		chartWidth, height, chartWidth, height, escape(title), style)
	s.text("title", 8, 22, title)
	return s
}

// end returns the whole drawing.
func (s *svg) end() string { return s.String() + "</svg>\n" }

func (s *svg) text(class string, x, y float64, text string) {
	fmt.Fprintf(s, `<text class="%s" x="%.1f" y="%.1f">%s</text>`+"\n", class, x, y, escape(text))
}

func (s *svg) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(s, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", class, x1, y1, x2, y2)
}

func (s *svg) circle(class string, x, y, radius float64) {
	fmt.Fprintf(s, `<circle class="%s" cx="%.1f" cy="%.1f" r="%.1f"/>`+"\n", class, x, y, radius)
}

func (s *svg) rect(class string, x, y, width, height float64) {
	fmt.Fprintf(s, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2"/>`+"\n", class, x, y, width, height)
}

// key explains the color of a series below the title.
func (s *svg) key(series int, x float64, name string) {
	s.rect(fmt.Sprintf("s%d", series), x, keyY-10, 12, 12)
	s.text("", x+18, keyY, name)
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // to memory
	return b.String()
}

// scale is a logarithmic scale between two powers of ten, which need not be whole.
type scale struct{ low, high float64 }

// newScale returns the scale from the smallest to the largest of the positive values: zeros have no place on it.
func newScale(values []float64) scale {
	s := scale{math.Inf(1), math.Inf(-1)}
	for _, value := range values {
		if value > 0 {
			s = scale{math.Min(s.low, math.Log10(value)), math.Max(s.high, math.Log10(value))}
		}
	}
	if math.IsInf(s.low, 0) {
		return scale{0, 1}
	}
	return s.spread()
}

// whole returns the scale with powers of ten at its ends.
func (s scale) whole() scale { return scale{math.Floor(s.low), math.Ceil(s.high)}.spread() }

// spread returns the scale with some room.
func (s scale) spread() scale {
	if s.low == s.high {
		s.high++
	}
	return s
}

// place returns where a value is between the ends of the scale: from 0 to 1.
func (s scale) place(value float64) float64 { return (math.Log10(value) - s.low) / (s.high - s.low) }

// decades hands each power of ten on the scale to a function, with its text.
func (s scale) decades(do func(value float64, text string)) {
	for decade := math.Ceil(s.low); decade <= s.high; decade++ {
		value := math.Pow(10, decade)
		if decade < 0 {
			do(value, fmt.Sprintf("%.*f", int(-decade), value))
		} else {
			do(value, grouped(int64(value)))
		}
	}
}
