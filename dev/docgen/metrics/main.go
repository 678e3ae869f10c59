// Command metrics writes docs/reference/metrics.md from the source that declares the metrics, or with --check says whether
// it is up to date. It fails on a metric whose name is neither written out where it is declared nor a constant of internal/names: a search
// would not find it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mooring-ccm/mooring/dev/docgen"
)

func main() {
	root := flag.String("root", ".", "the project's folder")
	os.Exit(docgen.Main(docgen.Page{
		File: "docs/reference/metrics.md", Of: "declarations of metrics", Generate: "./ccm",
		Render: func() ([]byte, error) { return page(*root) },
	}, flag.CommandLine, os.Args[1:], os.Stderr))
}

// page returns the page of metrics.
func page(root string) ([]byte, error) {
	shared, err := docgen.Constants(filepath.Join(root, "internal", "names"))
	if err != nil {
		return nil, err
	}
	metrics := reader{names: shared}
	var groups []group
	for _, room := range rooms {
		found, err := metrics.declaredIn(root, room.folder)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s declares no metric: its name in this command is out of date", room.folder)
		}
		groups = append(groups, group{room, found})
	}
	if err := complete(metrics, root, groups); err != nil {
		return nil, err
	}
	return render(groups), nil
}

// complete returns an error for metrics of folders that have no section.
func complete(metrics reader, root string, groups []group) error {
	placed := map[string]bool{}
	for _, section := range groups {
		for _, m := range section.metrics {
			placed[m.name] = true
		}
	}
	var errs []error
	for _, folder := range []string{"internal", "extensions", "providers"} {
		found, err := metrics.declaredIn(root, folder)
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
