package render

import (
	"fmt"
	"io"
	"os"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/mooring-ccm/mooring/dev/demo/scenario"
)

// Table shows a demo as a picture that moves on a terminal.
type Table struct {
	program *tea.Program
	ended   chan struct{}
	out     *os.File
	style   Style
	model   scenario.Model
}

// NewTable returns a renderer that paints on the terminal out and calls interrupt when Ctrl-C is typed on in, which may be nil.
func NewTable(out *os.File, in io.Reader, style Style, interrupt func()) *Table {
	options := []tea.ProgramOption{tea.WithOutput(out), tea.WithInput(in), tea.WithoutSignalHandler()}
	if !style.Color {
		options = append(options, tea.WithColorProfile(colorprofile.ASCII))
	}
	t := &Table{
		program: tea.NewProgram(picture{style: style, interrupt: interrupt}, options...), ended: make(chan struct{}), out: out, style: style,
	}
	go func() {
		defer close(t.ended)
		// A terminal that cannot be painted on ends the picture, not the demo: the summary is written in any case.
		_, _ = t.program.Run()
	}()
	return t
}

// Show paints the model.
func (t *Table) Show(_ scenario.Event, model scenario.Model) {
	t.model = model
	t.program.Send(shown{model})
}

// Close gives the terminal back and leaves the last picture on it.
func (t *Table) Close() {
	t.program.Quit()
	<-t.ended
	_, _ = fmt.Fprint(t.out, strings.Join(still(t.model, t.style, t.style.columns()), "\n"))
}

// shown is the message to the picture that the model changed.
type shown struct{ model scenario.Model }

// picture is the state of the terminal: the model, and how much of it fits.
type picture struct {
	model         scenario.Model
	style         Style
	width, height int
	interrupt     func()
}

// Init does nothing.
func (p picture) Init() tea.Cmd { return nil }

// Update takes a message.
func (p picture) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch m := message.(type) {
	case shown:
		p.model = m.model
	case tea.WindowSizeMsg:
		p.width, p.height = m.Width, m.Height
	case tea.KeyPressMsg:
		if m.String() == "ctrl+c" {
			p.interrupt()
		}
	}
	return p, nil
}

// View paints.
func (p picture) View() tea.View {
	if p.width == 0 {
		return tea.NewView("")
	}
	view := tea.NewView(paint(p.model, p.style, p.width, p.height))
	view.AltScreen = true
	return view
}
