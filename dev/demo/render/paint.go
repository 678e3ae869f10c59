package render

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/ansi"

	"github.com/mooring-ccm/mooring/dev/demo/scenario"
)

// paint returns the picture of a model, no wider and no higher than a terminal.
func paint(model scenario.Model, style Style, width, height int) string {
	head := still(model, style, width)
	// What is under way stays in sight; what has ended has the room that is left.
	now := current(model, style)
	room := max(0, height-len(head)-len(now))
	past := endedSteps(model, style)
	lines := slices.Concat(head, past[max(0, len(past)-room):], now)
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, width, "…")
	}
	return strings.Join(lines[max(0, len(lines)-height):], "\n")
}

// still is the part of the picture that does not scroll: who runs, which section it is, and the nodes.
func still(model scenario.Model, style Style, width int) []string {
	lines := []string{title(model, style, width), "", contents(model, style, width), ""}
	if len(model.Nodes) > 0 {
		lines = append(lines, strings.Split(nodeTable(model, style, width), "\n")...)
		lines = append(lines, "")
	}
	if len(model.Calls) > 0 {
		lines = append(lines, slices.Concat(calls(model, style), []string{""})...)
	}
	return lines
}

// calls says how often each service was called, and what the last calls were.
func calls(model scenario.Model, style Style) []string {
	line := style.paint(lookFaint, "API CALLS")
	for _, service := range model.Services() {
		line += "  " + style.paint(lookName, service) + " " + strconv.Itoa(model.CallsOf(service))
	}
	lines := []string{line}
	for _, call := range model.Recent {
		look := lookFaint
		if failed(call) {
			look = lookBad
		} else if call.Writes() {
			look = lookNew
		}
		lines = append(lines, style.paint(look, "  "+callLine(call)))
	}
	return lines
}

// title is the first line: who runs, and for how long.
func title(model scenario.Model, style Style, width int) string {
	left := style.Strong("Mooring")
	for _, replica := range model.Replicas {
		left += "   " + replica.Name + " " + style.paint(roleLook(replica.Role), string(replica.Role))
	}
	right := elapsed(model.Now.Sub(model.Began))
	gap := max(1, width-lipgloss.Width(left)-lipgloss.Width(right))
	return left + strings.Repeat(" ", gap) + style.paint(lookFaint, right)
}

func roleLook(role scenario.Role) lipgloss.Style {
	switch role {
	case scenario.Leader:
		return lookGood
	case scenario.Starting, scenario.Stopping:
		return lookBusy
	default:
		return lookFaint
	}
}

// contents is the list of sections. Where it does not fit, only the current one has its title.
func contents(model scenario.Model, style Style, width int) string {
	var long, short []string
	for _, section := range model.Sections {
		mark, look := sectionMark(section)
		long = append(long, style.paint(look, mark+" "+section.Title))
		if mark == "●" {
			short = append(short, style.paint(look, mark+" "+section.Title))
		} else {
			short = append(short, style.paint(look, mark))
		}
	}
	for _, line := range []string{strings.Join(long, "  "), strings.Join(long, " ")} {
		if lipgloss.Width(line) <= width {
			return line
		}
	}
	return strings.Join(short, " ")
}

func sectionMark(section scenario.Section) (string, lipgloss.Style) {
	states := map[scenario.State]int{}
	for _, step := range section.Steps {
		states[step.State]++
	}
	switch {
	case states[scenario.Failed] > 0:
		return "✗", lookBad
	case states[scenario.Done] == len(section.Steps):
		return "✓", lookGood
	case states[scenario.Waiting] == len(section.Steps):
		return "○", lookFaint
	default:
		return "●", lookBusy
	}
}

// column is one column of the table of nodes.
type column struct {
	header string
	// from is how wide the terminal must be for the column to be shown.
	from  int
	value func(scenario.Model, scenario.Node) string
}

func columns(width int) []column {
	all := []column{
		{"NODE", 0, func(_ scenario.Model, n scenario.Node) string { return n.Name }},
		{"STATE", 0, func(_ scenario.Model, n scenario.Node) string { return string(n.Phase()) }},
		{"PROVIDER ID", 0, func(_ scenario.Model, n scenario.Node) string { return n.ProviderID }},
		{"ZONE", 0, func(_ scenario.Model, n scenario.Node) string { return n.Zone }},
		{"TYPE", 0, func(_ scenario.Model, n scenario.Node) string { return n.Type }},
		{"INTERNAL", 100, func(_ scenario.Model, n scenario.Node) string { return n.Internal }},
		{"EXTERNAL", 100, func(_ scenario.Model, n scenario.Node) string { return n.External }},
		{"UNTAINTED", 0, func(m scenario.Model, n scenario.Node) string { return since(m, n.RegisteredAt, n.InitializedAt) }},
		{"READY", 0, func(m scenario.Model, n scenario.Node) string { return since(m, n.RegisteredAt, n.ReadyAt) }},
	}
	return slices.DeleteFunc(all, func(c column) bool { return width < c.from })
}

// since is how long something took, or has taken so far.
func since(model scenario.Model, began, ended time.Time) string {
	if ended.IsZero() {
		return elapsed(model.Now.Sub(began)) + "…"
	}
	return elapsed(ended.Sub(began))
}

func nodeTable(model scenario.Model, style Style, width int) string {
	shown := columns(width)
	headers := make([]string, len(shown))
	for i, c := range shown {
		headers[i] = c.header
	}
	rows := make([][]string, len(model.Nodes))
	for i, node := range model.Nodes {
		for _, c := range shown {
			rows[i] = append(rows[i], c.value(model, node))
		}
	}
	look := func(row, col int) lipgloss.Style {
		cell := lipgloss.NewStyle().PaddingRight(2)
		if !style.Color {
			return cell
		}
		if row == table.HeaderRow {
			return cell.Inherit(lookFaint)
		}
		return cell.Inherit(cellLook(shown[col].header, model.Nodes[row]))
	}
	return table.New().Headers(headers...).Rows(rows...).StyleFunc(look).Wrap(false).
		Border(lipgloss.NormalBorder()).BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).
		BorderColumn(false).BorderHeader(false).String()
}

func cellLook(header string, node scenario.Node) lipgloss.Style {
	phases := map[scenario.Phase]lipgloss.Style{
		scenario.Tainted: lookBad, scenario.Initialized: lookBusy, scenario.Ready: lookGood,
		scenario.Unready: lookBusy, scenario.ShutDown: lookBad, scenario.Held: lookBad,
	}
	switch {
	case node.Phase() == scenario.Gone:
		return lookFaint
	case header == "STATE":
		return phases[node.Phase()]
	case header == "NODE":
		return lookName
	case header == "TYPE" && !node.TypeChanged.IsZero():
		return lookNew
	default:
		return lipgloss.NewStyle()
	}
}

// endedSteps has a line for each step that has ended.
func endedSteps(model scenario.Model, style Style) []string {
	var lines []string
	for _, section := range model.Sections {
		for _, step := range section.Steps {
			switch step.State {
			case scenario.Done:
				lines = append(lines, style.paint(lookGood, "✓ ")+step.Title+style.paint(lookFaint, "  "+step.Detail))
			case scenario.Failed:
				lines = append(lines, style.paint(lookBad, "✗ "+step.Title+": "+oneLine(step.Err)))
			}
		}
	}
	return lines
}

// oneLine is for errors, which may have several.
func oneLine(text string) string { return strings.ReplaceAll(text, "\n", "; ") }

// current says what is under way, for how long and how far it is.
func current(model scenario.Model, style Style) []string {
	_, step, ok := model.Current()
	if !ok {
		return nil
	}
	wheel := []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}
	running := model.Now.Sub(step.Began)
	turn := wheel[int(running/(100*time.Millisecond))%len(wheel)]
	lines := []string{fmt.Sprintf("%s %s  %s", style.paint(lookBusy, turn), style.paint(lookFaint, elapsed(running)), step.Title)}
	if step.Detail != "" {
		lines = append(lines, style.paint(lookFaint, "  "+step.Detail))
	}
	return lines
}
