// Package generated writes files that are made from the source, and says when one is not current.
package generated

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// StaleError says that a file is not what its source makes it.
type StaleError struct {
	// File is the file, Of names its source in the plural, and Generate is the package for go generate.
	File, Of, Generate string
}

// Error says what to do.
func (e *StaleError) Error() string {
	return fmt.Sprintf("%s is not what the %s say: run go generate %s", e.File, e.Of, e.Generate)
}

// Put writes a file. With check it writes nothing, and returns a *StaleError if the file is not what would be written.
func Put(file string, text []byte, check bool, of, generate string) error {
	if !check {
		return os.WriteFile(file, text, 0o644)
	}
	written, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !bytes.Equal(written, text) {
		return &StaleError{File: file, Of: of, Generate: generate}
	}
	return nil
}
