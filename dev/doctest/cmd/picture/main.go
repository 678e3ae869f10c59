// Command picture draws what `make demo` says on a pipe as an SVG, a line for each step: make demo | picture > docs/demo.svg.
package main

import (
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	lines, err := steps(string(text))
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, draw(append([]string{"$ make demo", ""}, lines...)))
	return err
}

// The lines of the output that the picture is made of: a step begins, and it has happened, with the time since the start.
var (
	begins  = regexp.MustCompile(`^ *([\d.]+) s  \.\.\.  (.*)$`)
	happens = regexp.MustCompile(`^ *([\d.]+) s  (ok  |FAIL) (.*)$`)
)

// steps returns a line for each section and each step with the time that it took, and the last line of the summary.
func steps(text string) ([]string, error) {
	shown, summary, found := strings.Cut(text, "\nSummary\n")
	if !found {
		return nil, errors.New("the input has no summary: is it what make demo says, to its end?")
	}
	var lines []string
	title, began := "", 0.0
	for line := range strings.SplitSeq(shown, "\n") {
		if start := begins.FindStringSubmatch(line); start != nil {
			title = start[2]
			began, _ = strconv.ParseFloat(start[1], 64) // the expression lets nothing else pass
			continue
		}
		if end := happens.FindStringSubmatch(line); end != nil && title != "" && strings.HasPrefix(end[3], title) {
			at, _ := strconv.ParseFloat(end[1], 64)
			lines = append(lines, fmt.Sprintf("  %s %-*s %5.2f s", end[2], titleWidth, title, at-began))
			title = ""
			continue
		}
		if line != "" && !strings.HasPrefix(line, " ") {
			lines = append(lines, line)
		}
	}
	all := strings.Split(strings.TrimSpace(summary), "\n")
	return append(lines, "", all[len(all)-1]), nil
}

// titleWidth is what the longest title of a step takes.
const titleWidth = 96

// The size of a letter and the margin, in pixels.
const (
	letter = 7.25
	line   = 17
	margin = 16
)

// draw shows lines as a terminal does.
func draw(lines []string) string {
	widest := 0
	for _, one := range lines {
		widest = max(widest, len([]rune(one)))
	}
	width, height := int(float64(widest)*letter)+2*margin, len(lines)*line+2*margin
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">`+"\n", width, height)
	svg.WriteString("<title>The summary of make demo</title>\n" +
		"<style>text{font:12px ui-monospace,Menlo,Consolas,monospace;white-space:pre;fill:#c9d1d9}" +
		".ok{fill:#56d364}.bad{fill:#f85149}.head{fill:#ffffff;font-weight:bold}</style>\n")
	fmt.Fprintf(&svg, `<rect width="%d" height="%d" rx="8" fill="#0d1117"/>`+"\n", width, height)
	for i, one := range lines {
		if strings.TrimSpace(one) != "" {
			fmt.Fprintf(&svg, `<text x="%d" y="%d">%s</text>`+"\n", margin, margin+(i+1)*line-4, colored(one))
		}
	}
	svg.WriteString("</svg>\n")
	return svg.String()
}

// colored gives a line the colors that it has in a terminal.
func colored(text string) string {
	escaped := html.EscapeString(text)
	body := strings.TrimLeft(text, " ")
	switch {
	case strings.HasPrefix(body, "ok "):
		return strings.Replace(escaped, "ok", `<tspan class="ok">ok</tspan>`, 1)
	case strings.HasPrefix(body, "FAIL"):
		return strings.Replace(escaped, "FAIL", `<tspan class="bad">FAIL</tspan>`, 1)
	case body == text:
		return `<tspan class="head">` + escaped + `</tspan>`
	default:
		return escaped
	}
}
