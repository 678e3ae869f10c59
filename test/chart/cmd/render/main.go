// Command render writes the plain manifests from the chart. With -check it says which are not current instead.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mooring-ccm/mooring/test/chart/render"
)

func main() {
	deploy := flag.String("deploy", "../../deploy", "folder of the chart and the manifests")
	check := flag.Bool("check", false, "write nothing, and fail if a manifest is not current")
	flag.Parse()
	if err := run(*deploy, *check); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(deploy string, check bool) error {
	loaded, err := render.Load(filepath.Join(deploy, "charts", "mooring"))
	if err != nil {
		return err
	}
	var stale []error
	for _, manifest := range render.Manifests {
		want, err := manifest.Text(loaded)
		if err != nil {
			return err
		}
		path := filepath.Join(deploy, manifest.File)
		if have, err := os.ReadFile(path); err == nil && string(have) == want {
			continue
		}
		if check {
			stale = append(stale, fmt.Errorf("%s is not what the chart renders: run make generate", path))
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			return err
		}
		fmt.Println("wrote", path)
	}
	return errors.Join(stale...)
}
