// Command render writes the plain manifests from the chart, and the chart's README from its values. With -check it says which
// are not current instead.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mooring-ccm/mooring/dev/chart/render"
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
	chart := filepath.Join(deploy, "charts", "mooring")
	loaded, err := render.Load(chart)
	if err != nil {
		return err
	}
	readme, err := render.Readme(chart)
	if err != nil {
		return err
	}
	stale := []error{put(filepath.Join(chart, "README.md"), readme, check)}
	for _, manifest := range render.Manifests {
		want, err := manifest.Text(loaded)
		if err != nil {
			return err
		}
		stale = append(stale, put(filepath.Join(deploy, manifest.File), want, check))
	}
	return errors.Join(stale...)
}

// put writes a file that is not current, or says that it is not.
func put(path, want string, check bool) error {
	if have, err := os.ReadFile(path); err == nil && string(have) == want {
		return nil
	}
	if check {
		return fmt.Errorf("%s is not what the chart renders: run make generate", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		return err
	}
	fmt.Println("wrote", path)
	return nil
}
