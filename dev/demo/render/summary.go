package render

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/mooring-ccm/mooring/dev/demo/scenario"
	"github.com/mooring-ccm/mooring/internal/tool/words"
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
	result := fmt.Sprintf("All %s happened, in %s.", words.Count(all, "step", "steps"), elapsed(model.Now.Sub(model.Began)))
	look := lookGood.Bold(true)
	if !model.Succeeded() {
		result = fmt.Sprintf("%d of %s happened, %d failed, %d not reached.", done, words.Count(all, "step", "steps"), failed, all-done-failed)
		look = lookBad
	}
	fmt.Fprintf(&b, "\n%s\n", style.paint(look, result))
	return b.String()
}

// Next returns what to do after a demo that succeeded: the commands that follow, as they are typed.
func Next(commands []Command, style Style) string {
	width := 0
	for _, command := range commands {
		width = max(width, lipgloss.Width(command.Line))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", style.Strong("Next"))
	for _, command := range commands {
		fmt.Fprintf(&b, "  %s  %s\n", style.paint(lookName, fmt.Sprintf("%-*s", width, command.Line)), style.paint(lookFaint, command.About))
	}
	return b.String()
}

// Command is a command line, and what it is for.
type Command struct{ Line, About string }

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
