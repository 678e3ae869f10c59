// Package docgen is what the programs share that write a page of the documentation from the source: their flags, and the check that
// the page is current.
package docgen

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Page is a page that a program writes.
type Page struct {
	// File is where the page is unless --file says otherwise.
	File string
	// Of names the source in the plural, and Generate is the package for go generate. Both are for who reads that the page is old.
	Of, Generate string
	// Render returns the page. It is called when the flags are parsed.
	Render func() ([]byte, error)
}

// Main writes the page as the arguments say, and returns the exit code. Flags of the program's own are to be in the set.
func Main(page Page, flags *flag.FlagSet, arguments []string, stderr io.Writer) int {
	check := flags.Bool("check", false, "write nothing, and fail if the file is not what would be written")
	file := flags.String("file", page.File, "the file to write")
	err := flags.Parse(arguments)
	if err == nil {
		err = page.put(*file, *check)
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "error: %v\n", err)
		return 1
	}
	return 0
}

func (p Page) put(file string, check bool) error {
	text, err := p.Render()
	if err != nil {
		return err
	}
	return Put(file, text, check, p.Of, p.Generate)
}

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
