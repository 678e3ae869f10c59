package architecture

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the lists of what public packages export")

// TestPublicAPI holds what public packages export to the lists in the folder api. A change shows in review as what it is to vendors.
func TestPublicAPI(t *testing.T) {
	for _, path := range public {
		t.Run(path, func(t *testing.T) {
			now, err := exported(filepath.Join("../..", path))
			if err != nil || len(now) == 0 {
				t.Fatalf("%d lines, %v: this test looks in the wrong place", len(now), err)
			}
			file := filepath.Join("../api", strings.ReplaceAll(path, "/", "-")+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(strings.Join(now, "\n")+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			listed, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			before := strings.Split(strings.TrimSuffix(string(listed), "\n"), "\n")
			for _, line := range before {
				if !slices.Contains(now, line) {
					t.Errorf("gone or changed, which breaks programs of vendors: %s", line)
				}
			}
			for _, line := range now {
				if !slices.Contains(before, line) {
					t.Errorf("new, and to be kept from the next release on: %s", line)
				}
			}
			if t.Failed() {
				t.Log("if this is meant: go test ./dev/architecture -run TestPublicAPI -update")
			}
		})
	}
}

// TestEveryListIsOfAPackage finds lists that no test compares with a package.
func TestEveryListIsOfAPackage(t *testing.T) {
	files, err := filepath.Glob("../api/*.txt")
	if err != nil || len(files) != len(public) {
		t.Errorf("there are %d lists in the folder api for %d public packages: %v", len(files), len(public), err)
	}
}

func TestExported(t *testing.T) {
	dir := t.TempDir()
	const code = `package p

import "io"

const (
	Limit = 5
	small = 1
)

var Err, other error

type Store[K comparable] struct {
	// Name is documented.
	Name, Other string
	io.Reader
	hidden int
}

type Closer interface {
	Close(now bool) error
	sealed()
}

type Func func(name string) (int, error)

type Alias = Func

type private struct{ Field int }

func (*private) Method() {}

func (s *Store[K]) Get(key K) (found bool) { return false }

func New(options ...Func) *Closer { return nil }

func internal() {}
`
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"const Limit = 5",
		"func (*Store[K]) Get(K) bool",
		"func New(...Func) *Closer",
		"type Alias = Func",
		"type Closer interface",
		"type Closer interface, Close(bool) error",
		"type Closer interface, sealed()",
		"type Func func(string) (int, error)",
		"type Store[K comparable] struct",
		"type Store[K comparable] struct, Name string",
		"type Store[K comparable] struct, Other string",
		"type Store[K comparable] struct, embedded io.Reader",
		"var Err error",
	}
	got, err := exported(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
