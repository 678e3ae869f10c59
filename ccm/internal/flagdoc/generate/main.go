// Command generate writes docs/reference/flags.md, or with --check says whether it is up to date.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/ccm/internal/flagdoc"
	"github.com/mooring-ccm/mooring/internal/generated"
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
	return generated.Put(file, text, check, "flags", "./ccm")
}
