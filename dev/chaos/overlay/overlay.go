// Package overlay changes files of the source as the compiler sees them, by "go build -overlay". The files themselves stay as they are.
package overlay

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Replacement is a text of a file that is there once, and what takes its place.
type Replacement struct{ Old, New string }

// File is a file of the source with changes.
type File struct {
	// Path is absolute.
	Path         string
	Replacements []Replacement
}

// Source returns the changed file. It is an error if a text to replace is not there exactly once.
func (f File) Source() ([]byte, error) {
	content, err := os.ReadFile(f.Path)
	if err != nil {
		return nil, err
	}
	text := string(content)
	for _, r := range f.Replacements {
		if count := strings.Count(text, r.Old); count != 1 {
			return nil, fmt.Errorf("%s has the text %q %d times, not once: find where that is done now, and change the replacement",
				f.Path, r.Old, count)
		}
		text = strings.Replace(text, r.Old, r.New, 1)
	}
	return []byte(text), nil
}

// Write writes the changed file into a directory, and beside it what "go build -overlay" takes. It returns the path of the latter.
func (f File) Write(dir string) (string, error) {
	changed, err := f.Source()
	if err != nil {
		return "", err
	}
	source, overlay := filepath.Join(dir, filepath.Base(f.Path)), filepath.Join(dir, "overlay.json")
	content, err := json.Marshal(map[string]map[string]string{"Replace": {f.Path: source}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(source, changed, 0o600), os.WriteFile(overlay, content, 0o600))
}
