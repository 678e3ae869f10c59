package chart_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/strvals"

	"github.com/mooring-ccm/mooring/dev/chart/render"
	"github.com/mooring-ccm/mooring/dev/doctest"
	"github.com/mooring-ccm/mooring/dev/must"
)

// TestHelmCommandsOfGuidesRender renders the chart with the values that each `helm install` and `helm upgrade` of the guides
// sets, and looks for every file that the guides apply. With --reuse-values and --reset-then-reuse-values, those of the page's last command come first; so
// they do with --values, whose file is the reader's.
func TestHelmCommandsOfGuidesRender(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "how-to", "*.md"))
	must.NoError(t, err)
	quickstarts, err := filepath.Glob(filepath.Join(root, "docs", "quickstart", "*.md"))
	must.NoError(t, err)
	tried := 0
	for _, path := range append(slices.Concat(pages, quickstarts), filepath.Join(folder, "README.md")) {
		page, err := os.ReadFile(path)
		must.NoError(t, err)
		// Where a page upgrades what another one installs, this is what it installed.
		last := parse(t, "provider: {name: sim}")
		for _, command := range doctest.Commands(string(page)) {
			words := strings.Fields(command)
			if words[0] == "kubectl" {
				checkFiles(t, path, words)
			}
			if len(words) < 4 || words[0] != "helm" || words[1] != "install" && words[1] != "upgrade" {
				continue
			}
			if words[3] != "deploy/charts/mooring" {
				t.Errorf("%s: %q is not about the chart's folder", path, command)
			}
			if !strings.Contains(command, "reuse-values") && !strings.Contains(command, "--values") {
				last = map[string]any{}
			}
			setValues(t, command, last)
			if _, err := render.Objects(load(t), last); err != nil {
				t.Errorf("%s: %q: %v", path, command, err)
			}
			tried++
		}
	}
	if tried < 5 {
		t.Errorf("found %d commands: this test looks in the wrong place", tried)
	}
}

// setValues puts what a command sets into values.
func setValues(t *testing.T, command string, values map[string]any) {
	t.Helper()
	words := strings.Fields(command)
	for i, word := range words[:len(words)-1] {
		value := strings.Trim(words[i+1], "'")
		switch word {
		case "--set":
			must.NoError(t, strvals.ParseInto(value, values))
		case "--set-json":
			must.NoError(t, strvals.ParseJSON(value, values))
		}
	}
}

// checkFiles looks for the manifests of this repository that a command applies.
func checkFiles(t *testing.T, page string, words []string) {
	t.Helper()
	for _, word := range words {
		if strings.HasPrefix(word, "deploy/") {
			if _, err := os.Stat(filepath.Join(root, word)); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}
