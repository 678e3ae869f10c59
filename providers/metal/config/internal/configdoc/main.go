// Command configdoc writes docs/reference/metal-config.md from the doc comments of package config, or with --check says whether it
// is up to date.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/mooring-ccm/mooring/internal/docgen"
)

func main() {
	check := flag.Bool("check", false, "write nothing, and fail if the file is not what would be written")
	folder := flag.String("package", ".", "the folder of package config")
	file := flag.String("file", "docs/reference/metal-config.md", "the file to write")
	flag.Parse()
	if err := generate(*folder, *file, *check); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func generate(folder, file string, check bool) error {
	types, err := typesOf(folder)
	if err != nil {
		return err
	}
	text, err := render(types)
	if err != nil {
		return err
	}
	return docgen.Put(file, text, check, "types", "./providers/metal/config")
}
