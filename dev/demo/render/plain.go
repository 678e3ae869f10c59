package render

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mooring-ccm/mooring/dev/demo/scenario"
)

// Plain shows a demo as lines, each with the time since its beginning.
type Plain struct {
	out    io.Writer
	before scenario.Model
	// section is the section whose title was written last.
	section string
}

// NewPlain returns a renderer that writes lines to out.
func NewPlain(out io.Writer) *Plain { return &Plain{out: out} }

// Show writes what changed.
func (p *Plain) Show(event scenario.Event, model scenario.Model) {
	before := p.before
	p.before = model
	switch e := event.(type) {
	case scenario.StepBegan:
		p.began(model)
	case scenario.StepMoved:
		p.line(model, "...  %s", e.Detail)
	case scenario.StepEnded:
		if step, ok := stepOf(model, e.Step); ok {
			p.line(model, "%s", resultLine(step))
		}
	case scenario.NodeSeen:
		p.nodeChanged(before, model, e.Name)
	case scenario.NodeGone:
		p.nodeChanged(before, model, e.Name)
	case scenario.ReplicaSeen:
		p.line(model, "%s  %s, process %d", e.Name, e.Role, e.PID)
	case scenario.CallSeen:
		p.called(model, e.Call)
	}
}

// Close does nothing: what is written stays.
func (p *Plain) Close() {}

func (p *Plain) began(model scenario.Model) {
	section, step, ok := model.Current()
	if !ok {
		return
	}
	if section.Name != p.section {
		p.section = section.Name
		_, _ = fmt.Fprintf(p.out, "\n%s\n", section.Title)
	}
	p.line(model, "...  %s", step.Title)
}

func (p *Plain) nodeChanged(before, model scenario.Model, name string) {
	was, _ := nodeOf(before, name)
	if now, ok := nodeOf(model, name); ok {
		p.node(model, was, now)
	}
}

// node writes a line when a node has come further or back, or when its instance became another.
func (p *Plain) node(model scenario.Model, was, now scenario.Node) {
	switch {
	case now.TypeChanged != was.TypeChanged:
		p.line(model, "%s  %s -> %s", now.Name, now.TypeBefore, now.Type)
	case was.Name != "" && was.Phase() == now.Phase():
	case now.Phase() == scenario.Tainted, now.Phase() != scenario.Initialized && now.ReadyAt == was.ReadyAt:
		p.line(model, "%s  %s", now.Name, now.Phase())
	default:
		p.line(model, "%s  %-11s after %s  %s", now.Name, now.Phase(), elapsed(model.Now.Sub(now.RegisteredAt)),
			strings.Join([]string{now.ProviderID, now.Zone, now.Type, now.Internal, now.External}, "  "))
	}
}

// called writes a line for calls that change something or fail, and for the first one of each other kind.
func (p *Plain) called(model scenario.Model, call scenario.Call) {
	first := slices.ContainsFunc(model.Calls, func(c scenario.Calls) bool { return c.Kind == call.Kind() && c.Count == 1 })
	if first || call.Writes() || failed(call) {
		p.line(model, "%s", callLine(call))
	}
}

// failed reports whether a call was refused, or had no answer. A 404 is an answer to the question whether something is there.
func failed(call scenario.Call) bool {
	return call.Status == 0 || call.Status >= http.StatusBadRequest && call.Status != http.StatusNotFound
}

// callLine says what was asked of a service and what it answered.
func callLine(call scenario.Call) string {
	answer := "no answer"
	if call.Status != 0 {
		answer = strconv.Itoa(call.Status)
	}
	return fmt.Sprintf("%-8s  %-6s %s  %s, %s", call.Service, call.Method, call.Template, answer, elapsed(call.Took))
}

func (p *Plain) line(model scenario.Model, format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, "%8s  %s\n", elapsed(model.Now.Sub(model.Began)), fmt.Sprintf(format, args...))
}

// resultLine says how a step ended.
func resultLine(step scenario.Step) string {
	if step.State == scenario.Failed {
		return fmt.Sprintf("FAIL %s: %s", step.Title, step.Err)
	}
	line := "ok   " + step.Title
	if step.Detail != "" {
		line += ": " + step.Detail
	}
	return line
}

// elapsed writes a time as people read it: hundredths below ten seconds, since most of what is shown is that fast.
func elapsed(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	default:
		return fmt.Sprintf("%d:%02d min", int(d.Minutes()), int(d.Seconds())%60)
	}
}

func stepOf(model scenario.Model, name string) (scenario.Step, bool) {
	for _, section := range model.Sections {
		for _, step := range section.Steps {
			if step.Name == name {
				return step, true
			}
		}
	}
	return scenario.Step{}, false
}

func nodeOf(model scenario.Model, name string) (scenario.Node, bool) {
	for _, node := range model.Nodes {
		if node.Name == name {
			return node, true
		}
	}
	return scenario.Node{}, false
}
