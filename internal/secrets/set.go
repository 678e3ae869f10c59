// Package secrets keeps the credentials that this process was given out of what plugins say. A plugin is given the cloud config and the
// environment; an error of its own, or of the SDK below it, may repeat a password of these, and errors become events that many people read.
//
// What is replaced are exact values, so nothing is guessed: those of keys that name a credential. ADR 58 says what that leaves.
package secrets

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mooring-ccm/mooring/internal/message"
)

const (
	// shortest is how many bytes a value has at least that is looked for. Shorter ones are words that texts hold anyway.
	shortest = 8
	// versions is for how many contents of a source values are kept: a plugin may use what was there before for a while.
	versions = 8
	// most is how many bytes of a text are looked at. The rest is left out.
	most = 64 << 10
	// longestSource is how many bytes of a file are looked at.
	longestSource = 4 << 20
	// hidden stands for a value.
	hidden = "(hidden)"
)

// Set holds values that no text is to repeat. The nil Set holds none. It may be used concurrently.
type Set struct {
	mu sync.Mutex
	// values are those of the last contents of each source.
	values map[string][][]string
	// replace finds them in every form; longest is the longest form.
	replace *strings.Replacer
	longest int
	// path is the file that is read again when it has changed, and read what it was then.
	path string
	read os.FileInfo
}

// New returns a set with the credentials in these variables of an environment, NAME=VALUE.
func New(environment []string) *Set {
	s := &Set{values: map[string][][]string{}}
	var found []string
	for _, variable := range environment {
		if name, value, is := strings.Cut(variable, "="); is && namesCredential(name) {
			found = append(found, value)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep("the environment", found)
	return s
}

// AddConfig adds the credentials in a new content of the cloud config, beside those of the contents before.
func (s *Set) AddConfig(content []byte) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep("the cloud config", credentials(content))
}

// FollowFile adds the credentials in the file of the cloud config. It reads a changed file again whenever it looks at a text. A file that cannot be
// read adds none: the reader of the config reports that. Nor does a pipe, which can be read once. No path is no file.
func (s *Set) FollowFile(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.path = path
	s.refresh()
}

// Bound returns message.Bound of an error, with a text in which every value is replaced. It wraps the error.
func (s *Set) Bound(err error, bytes int) error {
	return message.Bound(s.Conceal(err), bytes)
}

// Conceal returns an error with a text in which every value is replaced: err itself if it has no such value, and otherwise one that wraps it.
func (s *Set) Conceal(err error) error {
	if s == nil || err == nil {
		return err
	}
	text := err.Error()
	if kept := s.Hide(text); kept != text {
		return &concealed{text: kept, err: err}
	}
	return err
}

// Hide returns a text in which every value is replaced: as it is, quoted, escaped as in JSON or a URL, or anywhere in Base64. A text that
// holds none is returned as it is, up to a bound that is far beyond what anybody is shown.
func (s *Set) Hide(text string) string {
	if s == nil {
		return text
	}
	s.mu.Lock()
	s.refresh()
	replace, longest := s.replace, s.longest
	s.mu.Unlock()
	if replace == nil {
		return text
	}
	if len(text) <= most {
		return replace.Replace(text)
	}
	kept := replace.Replace(text[:most])
	return kept[:max(0, len(kept)-longest)] // which may begin with a part of a value
}

// refresh reads the file again if it is another one. The lock is held.
func (s *Set) refresh() {
	if s.path == "" {
		return
	}
	now, err := os.Stat(s.path)
	if err != nil || !now.Mode().IsRegular() || s.read != nil && os.SameFile(now, s.read) && now.ModTime().Equal(s.read.ModTime()) && now.Size() == s.read.Size() {
		return
	}
	file, err := os.Open(s.path)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, longestSource))
	if err != nil {
		return
	}
	s.read = now
	s.keep(s.path, credentials(content))
}

// keep adds the values of a source's newest content. The lock is held.
func (s *Set) keep(source string, found []string) {
	all := append(s.values[source], found)
	s.values[source] = all[max(0, len(all)-versions):]
	forms := map[string]bool{}
	for _, contents := range s.values {
		for _, value := range slices.Concat(contents...) {
			for _, form := range formsOf(value) {
				forms[form] = true
			}
		}
	}
	s.replace, s.longest = nil, 0
	if len(forms) == 0 {
		return
	}
	// Of two that begin at the same byte the first counts: the longer one.
	sorted := slices.SortedFunc(maps.Keys(forms), func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	pairs := make([]string, 0, 2*len(sorted))
	for _, form := range sorted {
		pairs = append(pairs, form, hidden)
	}
	s.replace, s.longest = strings.NewReplacer(pairs...), len(sorted[0])
}

// formsOf returns how a text may hold a value; none if it is too short.
func formsOf(value string) []string {
	value = strings.TrimSpace(value)
	if len(value) < shortest {
		return nil
	}
	quoted := strconv.Quote(value)
	forms := []string{value, quoted[1 : len(quoted)-1], url.QueryEscape(value), url.PathEscape(value)}
	if encoded, err := json.Marshal(value); err == nil {
		forms = append(forms, string(encoded[1:len(encoded)-1]))
	}
	return append(forms, inBase64(value)...)
}

// inBase64 returns the part of a Base64 text that shows a value, as in a header with "user:password". The value may begin at any place in a group of
// three bytes. Letters that also encode neighboring bytes are left out.
func inBase64(value string) (forms []string) {
	for before, shared := range []int{0, 2, 3} {
		text := append(make([]byte, before), value...)
		text = text[:len(text)/3*3]
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			forms = append(forms, encoding.EncodeToString(text)[shared:])
		}
	}
	return forms
}

// concealed is an error with a text in which values are replaced.
type concealed struct {
	text string
	err  error
}

// Error returns the text.
func (e *concealed) Error() string { return e.text }

// Unwrap returns the error whose text is not to be shown.
func (e *concealed) Unwrap() error { return e.err }
