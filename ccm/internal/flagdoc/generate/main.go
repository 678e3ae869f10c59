// Command generate writes docs/reference/flags.md, or with --check says whether it is up to date.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/ccm/internal/flagdoc"
)

func main() {
	check := flag.Bool("check", false, "write nothing, and fail if the file is not what would be written")
	file := flag.String("file", "docs/reference/flags.md", "the file to write")
	flag.Parse()
	if err := generate(*file, *check); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func generate(file string, check bool) error {
	text := flagdoc.Render(ccm.NewCommand().Flags())
	if !check {
		return os.WriteFile(file, text, 0o644)
	}
	written, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if !bytes.Equal(written, text) {
		return fmt.Errorf("%s is not what the flags say: run go generate ./ccm", file)
	}
	return nil
}
