package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLimits keeps the shipped programs small. A program that has grown by a third at once has most likely come to call methods by names, as
// text/template does: dev/docs/sizes.md says how to find what does.
func TestLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("links both programs")
	}
	t.Chdir("../../..")
	for name, limit := range map[string]float64{"mooring": 42, "cloud-controller-manager": 67} {
		size, err := measurement{scratch: t.TempDir()}.size(t.Context(), name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if megabytes(size) > limit {
			t.Errorf("%s has %.1f MB, more than %.0f: see dev/docs/sizes.md", name, megabytes(size), limit)
		}
	}
}

func TestSizesOf(t *testing.T) {
	symbols := `  401000       100 T example.com/a.F
  401000        20 T example.com/a/b.(*T).M
  401000         3 R type:.eq.example.com/a/v2.T
  401000      4000 D crypto/internal/fips140/drbg.memory
  401000         5 T net/http.(*Client).Do
           U open
`
	built := "x: go1.26.0\n\tpath\texample.com/x\n\tmod\texample.com/x\t(devel)\t\n\tdep\texample.com/a\tv1.0.0\th1:x\n\tdep\texample.com/a/v2\tv2.0.0\th1:x\n"
	want := map[string]int64{"example.com/a": 120, "example.com/a/v2": 3, "Go's runtime and standard library": 5}
	if diff := cmp.Diff(want, sizesOf(symbols, modulesOf(built))); diff != "" {
		t.Error(diff)
	}
}
