// Package multicall lets one executable be several programs.
package multicall

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Main runs the program that the executable's name or its first argument selects, and exits with what it returns.
// The selected program sees os.Args as if it had been called by its own name.
func Main(programs map[string]func() int) {
	if run, found := programs[filepath.Base(os.Args[0])]; found {
		os.Exit(run())
	}
	if len(os.Args) > 1 {
		if run, found := programs[os.Args[1]]; found {
			os.Args = os.Args[1:]
			os.Exit(run())
		}
	}
	names := slices.Sorted(maps.Keys(programs))
	fmt.Fprintf(os.Stderr, "usage: %s PROGRAM [ARGUMENT...]\nprograms: %s\n", os.Args[0], strings.Join(names, ", "))
	os.Exit(2)
}
