package render

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/demo/scenario"
)

// Summary returns what was checked and what came of it, every step of the demo.
func Summary(model scenario.Model, style Style) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", style.Strong("Summary"))
	for _, section := range model.Sections {
		fmt.Fprintf(&b, "%s\n", style.paint(lookName, section.Title))
		for _, step := range section.Steps {
			writeStep(&b, step, style)
		}
	}
	all, done, failed := model.Count()
	result := fmt.Sprintf("All %d steps happened, in %s.", all, elapsed(model.Now.Sub(model.Began)))
	look := lookGood.Bold(true)
	if !model.Succeeded() {
		result = fmt.Sprintf("%d of %d steps happened, %d failed, %d not reached.", done, all, failed, all-done-failed)
		look = lookBad
	}
	fmt.Fprintf(&b, "\n%s\n", style.paint(look, result))
	return b.String()
}

// indent is where the text of a step begins.
const indent = 7

func writeStep(b *strings.Builder, step scenario.Step, style Style) {
	width := style.columns()
	mark, took, note, look := "--  ", "not reached", "", lookFaint
	switch step.State {
	case scenario.Done:
		mark, took, note, look = "ok  ", elapsed(step.Took), step.Detail, lookGood
	case scenario.Failed:
		mark, took, note, look = "FAIL", elapsed(step.Took), step.Err, lookBad
	}
	room := width - indent - 2 - lipgloss.Width(took)
	title := strings.Split(lipgloss.Wrap(step.Title, room, " "), "\n")
	for i, line := range title {
		if i > 0 {
			fmt.Fprintf(b, "%*s%s\n", indent, "", line)
			continue
		}
		gap := max(1, width-indent-lipgloss.Width(line)-lipgloss.Width(took)-1)
		fmt.Fprintf(b, "  %s %s%*s%s\n", style.paint(look, mark), line, gap, "", style.paint(lookStrong, took))
	}
	if note == "" {
		return
	}
	noteLook := lookFaint
	if step.State == scenario.Failed {
		noteLook = lookBad
	}
	for line := range strings.SplitSeq(lipgloss.Wrap(note, width-indent-1, " "), "\n") {
		fmt.Fprintf(b, "%*s%s\n", indent, "", style.paint(noteLook, strings.TrimRight(line, " ")))
	}
}
