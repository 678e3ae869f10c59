// Command metricdoc writes docs/reference/metrics.md from the source that declares the metrics, or with --check says whether
// it is up to date. It fails on a metric whose name is not written out where it is declared: nobody could search for it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/mooring-ccm/mooring/internal/generated"
)

func main() {
	check := flag.Bool("check", false, "write nothing, and fail if the file is not what would be written")
	root := flag.String("root", ".", "the project's folder")
	file := flag.String("file", "docs/reference/metrics.md", "the file to write")
	flag.Parse()
	if err := generate(*root, *file, *check); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func generate(root, file string, check bool) error {
	var groups []group
	for _, room := range rooms {
		found, err := declaredIn(root, room.folder)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("%s declares no metric: its name in this command is out of date", room.folder)
		}
		groups = append(groups, group{room, found})
	}
	if err := complete(root, groups); err != nil {
		return err
	}
	text := render(groups)
	return generated.Put(file, text, check, "declarations of metrics", "./ccm")
}

// complete returns an error for metrics of folders that have no section.
func complete(root string, groups []group) error {
	placed := map[string]bool{}
	for _, section := range groups {
		for _, m := range section.metrics {
			placed[m.name] = true
		}
	}
	var errs []error
	for _, folder := range []string{"internal", "providers"} {
		found, err := declaredIn(root, folder)
		if err != nil {
			return err
		}
		for _, m := range found {
			if !placed[m.name] {
				errs = append(errs, fmt.Errorf("%s of %s is in no section: add its folder to the rooms of this command", m.name, folder))
			}
		}
	}
	return errors.Join(errs...)
}
