package render

import (
	"os"

	"charm.land/lipgloss/v2"
)

// Style says how text looks. The zero value is plain text without colors, 80 columns wide.
type Style struct {
	// Color says whether text may have colors and weight.
	Color bool
	// Columns is how wide lines may be; zero means 80.
	Columns int
}

// NoColor reports whether the environment asks for no colors, as https://no-color.org says: NO_COLOR is set and not empty.
func NoColor() bool { return os.Getenv("NO_COLOR") != "" }

func (s Style) columns() int {
	if s.Columns <= 0 {
		return 80
	}
	return s.Columns
}

// paint gives text a look when colors are wanted.
func (s Style) paint(look lipgloss.Style, text string) string {
	if !s.Color {
		return text
	}
	return look.Render(text)
}

// The looks use the sixteen colors of the terminal's own palette, so they fit its background.
var (
	lookStrong = lipgloss.NewStyle().Bold(true)
	lookFaint  = lipgloss.NewStyle().Faint(true)
	lookGood   = lipgloss.NewStyle().Foreground(lipgloss.Green)
	lookBad    = lipgloss.NewStyle().Foreground(lipgloss.Red).Bold(true)
	lookBusy   = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	lookName   = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
	lookNew    = lipgloss.NewStyle().Foreground(lipgloss.Magenta).Bold(true)
)

// Strong returns text that stands out.
func (s Style) Strong(text string) string { return s.paint(lookStrong, text) }
