package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mooring-ccm/mooring/internal/tool/gobuild"
	"github.com/mooring-ccm/mooring/internal/version"
)

// most is how many modules are shown.
const most = 10

// symbolPackage finds the package in the name of a symbol: up to the first dot behind the last slash.
var symbolPackage = regexp.MustCompile(`^(?:go:itab\.\*?|type:(?:\.eq\.|\.hash\.)?\*?)?((?:[\w.~%-]+/)*[\w~%-]+)\.`)

// modules prints the modules with the largest symbols: code and constants, without the tables that the linker makes of them.
func (m measurement) modules(ctx context.Context, name string) error {
	file := filepath.Join(m.scratch, name)
	flags := slices.DeleteFunc(gobuild.Shipped(os.Getenv("GOFLAGS"), ""), func(flag string) bool { return strings.HasPrefix(flag, "-ldflags=") })
	if err := m.build(ctx, name, file, flags); err != nil {
		return err
	}
	built, err := goTool(ctx, "version", "-m", file)
	if err != nil {
		return err
	}
	symbols, err := goTool(ctx, "tool", "nm", "-size", file)
	if err != nil {
		return err
	}
	sizes := sizesOf(symbols, modulesOf(built))
	largest := slices.SortedFunc(maps.Keys(sizes), func(a, b string) int { return cmp.Compare(sizes[b], sizes[a]) })
	fmt.Printf("| module | symbols |\n|---|---|\n")
	for _, module := range largest[:min(most, len(largest))] {
		fmt.Printf("| %s | %.1f MB |\n", module, megabytes(sizes[module]))
	}
	fmt.Println()
	return nil
}

// modulesOf reads the modules of a program from what go version -m prints.
func modulesOf(built string) []string {
	modules := []string{version.Module}
	for line := range strings.Lines(built) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "dep" {
			modules = append(modules, fields[1])
		}
	}
	return modules
}

// sizesOf adds up symbols by module. What is in no module is Go's own.
func sizesOf(symbols string, modules []string) map[string]int64 {
	sizes := map[string]int64{}
	for line := range strings.Lines(symbols) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.Contains("TtRr", fields[2]) {
			continue // a variable: nm does not say which are zero, and in no file
		}
		size, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			continue
		}
		sizes[moduleOf(fields[3], modules)] += size
	}
	return sizes
}

// moduleOf returns the module of a symbol: that with the longest path.
func moduleOf(symbol string, modules []string) string {
	found := "Go's runtime and standard library"
	match := symbolPackage.FindStringSubmatch(symbol)
	if match == nil {
		return found
	}
	path, longest := strings.ReplaceAll(match[1], "%2e", "."), 0
	for _, module := range modules {
		if len(module) > longest && (path == module || strings.HasPrefix(path, module+"/")) {
			found, longest = module, len(module)
		}
	}
	return found
}
