package docgen

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	var stale *StaleError
	if err := Put(file, []byte("new"), true, "flags", "./ccm"); !errors.As(err, &stale) {
		t.Errorf("a file that is not there: %v, want a StaleError", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a check has written the file")
	}
	if err := Put(file, []byte("new"), false, "flags", "./ccm"); err != nil {
		t.Fatal(err)
	}
	if err := Put(file, []byte("new"), true, "flags", "./ccm"); err != nil {
		t.Errorf("a current file: %v", err)
	}
	err := Put(file, []byte("newer"), true, "flags", "./ccm")
	if want := file + " is not what the flags say: run go generate ./ccm"; err == nil || err.Error() != want {
		t.Errorf("an old file: %v, want %s", err, want)
	}
}

func TestPage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	page := Page{File: file, Of: "flags", Generate: "./ccm", Render: func() ([]byte, error) { return []byte("new"), nil }}
	broken := page
	broken.Render = func() ([]byte, error) { return nil, errors.New("no source") }
	for _, test := range []struct {
		page      Page
		arguments []string
		code      int
		says      string
	}{
		{page, []string{"--check"}, 1, "error: " + file + " is not what the flags say: run go generate ./ccm\n"},
		{broken, nil, 1, "error: no source\n"},
		{page, nil, 0, ""},
		{page, []string{"--check"}, 0, ""},
	} {
		var stderr strings.Builder
		if code := Main(test.page, flag.NewFlagSet("", flag.ContinueOnError), test.arguments, &stderr); code != test.code || stderr.String() != test.says {
			t.Errorf("%q: exit code %d and %q, want %d and %q", test.arguments, code, stderr.String(), test.code, test.says)
		}
	}
}

func TestConstants(t *testing.T) {
	folder := t.TempDir()
	for name, source := range map[string]string{
		"a.go":      "package x\nconst (\n\tA = \"a\"\n\tN = 1\n\tB kind = \"b\"\n)\ntype kind string\n",
		"a_test.go": "package x\nconst C = \"c\"\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	found, err := Constants(folder)
	if err != nil || len(found) != 2 || found["A"] != "a" || found["B"] != "b" {
		t.Errorf("found %v, %v", found, err)
	}
	if found, err := Constants(t.TempDir()); err == nil {
		t.Errorf("a folder without constants: %v and no error", found)
	}
}
