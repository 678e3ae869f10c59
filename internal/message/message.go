// Package message makes texts fit for people and for logs that somebody else has written: clouds, plugins, management controllers,
// users of the cluster. What it returns is one line of bounded length without control characters.
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
func Line(text string, most int) string {
	var line strings.Builder
	line.Grow(min(len(text), most))
	pending := ""
	var last rune
	for _, r := range text {
		if unicode.IsSpace(r) {
			if line.Len() > 0 {
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
		if last = r; line.Len()+len(pending)+utf8.RuneLen(r) > most {
			return cut(line.String(), most-len(more)) + more
		}
		line.WriteString(pending)
		line.WriteRune(r)
		pending = ""
	}
	return line.String()
}

// cut returns the beginning of a text, of at most so many bytes, without half a letter at its end.
func cut(text string, most int) string {
	if most = max(most, 0); len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// Bound returns an error whose text is one printable line of at most so many bytes: err itself where its text is, and otherwise one that
// wraps it.
func Bound(err error, most int) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if line := Line(text, most); line != text {
		return &bounded{text: line, err: err}
	}
	return err
}

// bounded is an error with a text of our making.
type bounded struct {
	text string
	err  error
}

// Error returns the text.
func (e *bounded) Error() string { return e.text }

// Unwrap returns the error that has another text.
func (e *bounded) Unwrap() error { return e.err }
