package render

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/demo/story"
)

// Plain shows a story as lines, each with the time since its beginning.
type Plain struct {
	out    io.Writer
	before story.Model
	// chapter is the chapter whose title was written last.
	chapter string
}

// NewPlain returns a renderer that writes lines to out.
func NewPlain(out io.Writer) *Plain { return &Plain{out: out} }

// Show writes what changed.
func (p *Plain) Show(event story.Event, model story.Model) {
	before := p.before
	p.before = model
	switch e := event.(type) {
	case story.StepBegan:
		p.began(model)
	case story.StepMoved:
		p.line(model, "...  %s", e.Detail)
	case story.StepEnded:
		if step, ok := stepOf(model, e.Step); ok {
			p.line(model, "%s", resultLine(step))
		}
	case story.NodeSeen:
		p.nodeChanged(before, model, e.Name)
	case story.NodeGone:
		p.nodeChanged(before, model, e.Name)
	case story.ReplicaSeen:
		p.line(model, "%s  %s, process %d", e.Name, e.Role, e.PID)
	}
}

// Close does nothing: what is written stays.
func (p *Plain) Close() {}

func (p *Plain) began(model story.Model) {
	chapter, step, ok := model.Current()
	if !ok {
		return
	}
	if chapter.Name != p.chapter {
		p.chapter = chapter.Name
		_, _ = fmt.Fprintf(p.out, "\n%s\n", chapter.Title)
	}
	p.line(model, "...  %s", step.Title)
}

func (p *Plain) nodeChanged(before, model story.Model, name string) {
	was, _ := nodeOf(before, name)
	if now, ok := nodeOf(model, name); ok {
		p.node(model, was, now)
	}
}

// node writes a line when a node has come further or back, or when its instance became another.
func (p *Plain) node(model story.Model, was, now story.Node) {
	switch {
	case now.TypeChanged != was.TypeChanged:
		p.line(model, "%s  %s -> %s", now.Name, now.TypeBefore, now.Type)
	case was.Name != "" && was.Phase() == now.Phase():
	case now.Phase() == story.Tainted, now.Phase() != story.Initialized && now.ReadyAt == was.ReadyAt:
		p.line(model, "%s  %s", now.Name, now.Phase())
	default:
		p.line(model, "%s  %-11s after %s  %s", now.Name, now.Phase(), elapsed(model.Now.Sub(now.RegisteredAt)),
			strings.Join([]string{now.ProviderID, now.Zone, now.Type, now.Internal, now.External}, "  "))
	}
}

func (p *Plain) line(model story.Model, format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, "%8s  %s\n", elapsed(model.Now.Sub(model.Began)), fmt.Sprintf(format, args...))
}

// resultLine says how a step ended.
func resultLine(step story.Step) string {
	if step.State == story.Failed {
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

func stepOf(model story.Model, name string) (story.Step, bool) {
	for _, chapter := range model.Chapters {
		for _, step := range chapter.Steps {
			if step.Name == name {
				return step, true
			}
		}
	}
	return story.Step{}, false
}

func nodeOf(model story.Model, name string) (story.Node, bool) {
	for _, node := range model.Nodes {
		if node.Name == name {
			return node, true
		}
	}
	return story.Node{}, false
}
