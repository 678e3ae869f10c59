package view

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Style says how text is shown.
type Style struct {
	// Color paints what matters, by ANSI escape sequences. Without it, nothing but printable text is written.
	Color bool
	// All shows what is cut otherwise. EveryRow shows rows that are left out of long tables because nothing is wrong with them.
	All, EveryRow bool
	// ProblemsFirst shows rows with problems before the others: the end of the text may not fit on the screen.
	ProblemsFirst bool
}

// color is an ANSI escape sequence; empty for the terminal's own.
type color string

const (
	none   color = ""
	red    color = "\x1b[31m"
	green  color = "\x1b[32m"
	yellow color = "\x1b[33m"
	bold   color = "\x1b[1m"
	reset        = "\x1b[0m"
)

// cell is a text in a table.
type cell struct {
	text  string
	color color
}

// paint colors a text if the style does.
func (s Style) paint(text string, with color) string {
	if !s.Color || with == none || text == "" {
		return text
	}
	return string(with) + text + reset
}

// cells are texts without a color.
func cells(texts ...string) []cell {
	row := make([]cell, len(texts))
	for i, text := range texts {
		row[i].text = text
	}
	return row
}

// writeTable writes rows in columns as wide as their widest cell, except for the last. A column without any text is left out, its
// title included, unless the style shows all; an empty cell is a dash.
func writeTable(out *strings.Builder, style Style, title []string, rows [][]cell) {
	widths := make([]int, len(title))
	for _, row := range rows {
		for i := range row {
			row[i].text = Printable(row[i].text)
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].text))
		}
	}
	last := 0
	for i, width := range widths {
		if width > 0 || style.All {
			widths[i] = max(width, len(title[i]))
			last = i
		}
	}
	for _, row := range append([][]cell{cells(title...)}, rows...) {
		for i, one := range row {
			if widths[i] == 0 {
				continue
			}
			if one.text == "" {
				one.text = "-"
			}
			out.WriteString(style.paint(one.text, one.color))
			if i < last {
				out.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(one.text)+2))
			}
		}
		out.WriteByte('\n')
	}
}

// Printable makes one line of a text from another program: a dot replaces what could move the cursor or paint the terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPrint(r):
			return r
		default:
			return '·'
		}
	}, text)
}

// age shows a time as how long ago it was, empty if it is not known.
func age(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	return short(now.Sub(then))
}

// short shows a duration by its largest units: 42s, 7m, 3h12m, 5d.
func short(d time.Duration) string {
	switch d = max(d, 0).Round(time.Second); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
}

// timestamp shows a time in full, for the style that shows everything.
func (s Style) timestamp(then time.Time) cell {
	if !s.All || then.IsZero() {
		return cell{}
	}
	return cell{text: then.UTC().Format(time.RFC3339)}
}

// Good paints what is as it should be.
func (s Style) Good(text string) string { return s.paint(text, green) }

// Doubtful paints what may make trouble.
func (s Style) Doubtful(text string) string { return s.paint(text, yellow) }

// Bad paints what is wrong.
func (s Style) Bad(text string) string { return s.paint(text, red) }
