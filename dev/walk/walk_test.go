package walk

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-ccm/mooring/dev/walk/trace"
)

func TestCount(t *testing.T) {
	entries := []trace.Entry{
		{Goroutine: "1", File: "a.go", Function: "reconciler.Reconcile"},
		{Goroutine: "1", File: "a.go", Function: "plan"},
		{Goroutine: "2", File: "b.go", Function: "watch"},
		{Goroutine: "1", File: "b.go", Function: "apply"},
		{Goroutine: "1", File: "a.go", Function: "note"},
		{Goroutine: "1", File: "b.go", Function: "send"},
		{Goroutine: "1", File: "b.go", Function: "wait"},
	}
	if diff := cmp.Diff(Walk{Entries: 6, Files: 2, Returns: 2}, Count(entries, "a.go", "reconciler.Reconcile")); diff != "" {
		t.Errorf("walk (-want +got):\n%s", diff)
	}
}

func TestOverlay(t *testing.T) {
	module, into := t.TempDir(), t.TempDir()
	for name, source := range map[string]string{
		"core/a.go":      "// Package core is it.\npackage core\n\nimport \"fmt\"\n\ntype set[K comparable] struct{}\n\nfunc (s *set[K]) add(k K) {\n\tfmt.Println(k)\n}\n",
		"core/b.go":      "package core\n\nconst one = 1\n",
		"core/a_test.go": "package core\n",
	} {
		path := filepath.Join(module, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replaced, err := Overlay(module, into, "core")
	if err != nil || len(replaced) != 2 {
		t.Fatalf("%d files are replaced, %v", len(replaced), err)
	}
	for name, want := range map[string]string{
		"core/a.go": "// Package core is it.\npackage core; import walktrace \"" + tracePackage + "\"\n\nimport \"fmt\"\n\ntype set[K comparable] struct{}\n\n" +
			"func (s *set[K]) add(k K) {walktrace.Enter(\"core/a.go\", \"set.add\");\n\tfmt.Println(k)\n}\n",
		"core/b.go": "package core\n\nconst one = 1\n",
	} {
		got, err := os.ReadFile(replaced[filepath.Join(module, name)])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
