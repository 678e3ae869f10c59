// Package message makes foreign texts fit for people and for logs. Clouds, plugins, management controllers and users of the cluster write such texts.
// What it returns is one line of bounded length without control characters.
//
// See ADR 6.
package message

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// more stands for what is left out.
const more = "..."

// Line makes one line of a text, of at most so many bytes. White space becomes one space; what is not printable, or changes how the
// rest is shown (control characters, marks that turn the direction of writing, bytes that are not UTF-8), becomes U+FFFD. The end of
// what is too long is left out, and not looked at.
func Line(text string, most int) string { return line(text, most, unicode.IsSpace) }

// Printable does as Line, and keeps spaces as they are.
func Printable(text string, most int) string {
	return line(text, most, func(r rune) bool { return r != ' ' && unicode.IsSpace(r) })
}

// line makes one space of each row of what is a gap, none of it at the ends.
func line(text string, most int, gap func(rune) bool) string {
	var made strings.Builder
	made.Grow(min(len(text), most))
	pending := ""
	var last rune
	for _, r := range text {
		if gap(r) {
			if made.Len() > 0 {
				pending = " "
			}
			continue
		}
		if !unicode.IsGraphic(r) {
			r = utf8.RuneError
		}
		if r == utf8.RuneError && last == r && pending == "" {
			continue
		}
		if last = r; made.Len()+len(pending)+utf8.RuneLen(r) > most {
			return cut(made.String(), most-len(more)) + more
		}
		made.WriteString(pending)
		made.WriteRune(r)
		pending = ""
	}
	return made.String()
}

// cut returns the beginning of a text, of at most so many bytes, without half a letter at its end.
func cut(text string, most int) string {
	if most = max(most, 0); len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// Bound returns an error whose text has at most so many bytes and no control characters but the ends of lines: err itself where its text
// is like that, and otherwise one that wraps it, whose text is one line.
func Bound(err error, most int) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if len(text) <= most && utf8.ValidString(text) && strings.IndexFunc(text, hidden) < 0 {
		return err
	}
	return &bounded{text: Line(text, most), err: err}
}

// hidden reports whether a character of an error's text is not to be shown.
func hidden(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) }

// bounded is an error with a text of our making.
type bounded struct {
	text string
	err  error
}

// Error returns the text.
func (e *bounded) Error() string { return e.text }

// Unwrap returns the error that has another text.
func (e *bounded) Unwrap() error { return e.err }
