// Command licenses looks at the licenses of everything that is linked into programs, and fails if one is not allowed.
//
//	licenses ./cmd/cloud-controller-manager ./cmd/mooring
//
// What is linked is what the go tool says for Linux with CGO_ENABLED=0, as programs are shipped. Licenses are read from the files in the folders of
// modules by Google's classifier, which go-licenses uses too.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	classifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

// allowed are the licenses, as SPDX names them, under which parts of programs may be that are given away under Apache-2.0. All of them ask
// for no more than that their text goes along.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "BSD-2-Clause-Views", "BSD-3-Clause-Attribution", "0BSD", "CC0-1.0", "Unlicense", "Zlib"}

// choices are the licenses that are chosen for modules which give the choice.
var choices = map[string]string{
	"github.com/spdx/tools-golang": "Apache-2.0", // or GPL-2.0-or-later
}

// licenseFile is how files with licenses are called, and docsFile those of them that are about documentation, which is not linked.
var (
	licenseFile = regexp.MustCompile(`(?i)^(un)?licen[sc]e|^copying`)
	docsFile    = regexp.MustCompile(`(?i)docs?$`)
)

// module is what matters of a module in the output of go list.
type module struct {
	Path, Version, Dir string
	Main               bool
	Replace            *module
}

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, packages []string) error {
	if len(packages) == 0 {
		return errors.New("name the packages of the programs")
	}
	modules, err := linked(packages)
	if err != nil {
		return err
	}
	reader, err := assets.DefaultClassifier()
	if err != nil {
		return fmt.Errorf("the texts of known licenses: %w", err)
	}
	counts := map[string]int{}
	var errs []error
	for _, one := range modules {
		licenses, err := licensesOf(reader, one)
		if err == nil {
			err = check(one, licenses)
		}
		errs = append(errs, err)
		for _, license := range licenses {
			counts[license]++
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("licenses that are not allowed, or not known:\n%w", err)
	}
	fmt.Fprintf(out, "%d modules:", len(modules))
	for _, license := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(out, " %s %d", license, counts[license])
	}
	fmt.Fprintln(out)
	return nil
}

// linked returns the modules, other than the main one, of which packages are linked into programs.
func linked(packages []string) ([]module, error) {
	command := exec.Command("go", append([]string{"list", "-deps", "-json=Module"}, packages...)...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	var said bytes.Buffer
	command.Stderr = &said
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w: %s", strings.Join(packages, " "), err, said.String())
	}
	found := map[string]module{}
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var listed struct{ Module *module }
		switch err := decoder.Decode(&listed); {
		case errors.Is(err, io.EOF):
			return slices.SortedFunc(maps.Values(found), func(a, b module) int { return cmp.Compare(a.Path, b.Path) }), nil
		case err != nil:
			return nil, fmt.Errorf("the output of go list: %w", err)
		case listed.Module == nil || listed.Module.Main: // the standard library, which has Go's license, and ourselves
			continue
		case listed.Module.Replace != nil:
			found[listed.Module.Path] = *listed.Module.Replace
		default:
			found[listed.Module.Path] = *listed.Module
		}
	}
}

// licensesOf returns the licenses of the files in the folder of a module.
func licensesOf(reader *classifier.Classifier, one module) ([]string, error) {
	entries, err := os.ReadDir(one.Dir)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", one.Path, one.Version, err)
	}
	found := map[string]bool{}
	for _, entry := range entries {
		if entry.IsDir() || !licenseFile.MatchString(entry.Name()) || docsFile.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(one.Dir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", one.Path, one.Version, err)
		}
		matched := false
		for _, match := range reader.Match(text).Matches {
			if match.MatchType == "License" {
				found[match.Name], matched = true, true
			}
		}
		if !matched {
			return nil, fmt.Errorf("%s %s: %s is no license that the classifier knows: read it", one.Path, one.Version, entry.Name())
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// check returns an error unless a module has licenses, and all of them are allowed.
func check(one module, licenses []string) error {
	if choice := choices[one.Path]; slices.Contains(licenses, choice) {
		return nil
	}
	if len(licenses) == 0 {
		return fmt.Errorf("%s %s has no license and must not be distributed", one.Path, one.Version)
	}
	for _, license := range licenses {
		if !slices.Contains(allowed, license) {
			return fmt.Errorf("%s %s is under %s, which is not among %s", one.Path, one.Version, license, strings.Join(allowed, ", "))
		}
	}
	return nil
}
