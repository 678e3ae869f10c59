package run

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/mooring-ccm/mooring/dev/simulation/draw"
)

//go:embed testdata
var testdata embed.FS

// The folders of scenarios, see the comment of the package.
const (
	corpusFolder = "testdata/corpus"
	knownFolder  = "testdata/known"
)

// kindPrefix begins a comment of a scenario that names a kind of failure.
const kindPrefix = "# kind: "

// Scenario is a draw in a file.
type Scenario struct {
	// File is the name of the file.
	File string
	// Kinds are the kinds of failures that it shows, or showed once if it is in the corpus.
	Kinds []string
	Draw  draw.Draw
}

// Corpus returns the scenarios that failed once and pass now.
func Corpus() ([]Scenario, error) { return SavedScenarios(testdata, corpusFolder) }

// KnownScenarios returns the scenarios of the kinds of failures that are known today.
var KnownScenarios = sync.OnceValues(func() ([]Scenario, error) { return SavedScenarios(testdata, knownFolder) })

// SavedScenarios reads the scenarios of a folder.
func SavedScenarios(files fs.FS, folder string) (all []Scenario, err error) {
	names, err := fs.Glob(files, path.Join(folder, "*"+extension))
	if err != nil {
		return nil, fmt.Errorf("scenarios: %w", err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("scenarios: %w", err)
		}
		scenario, err := ParseScenario(name, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, scenario)
	}
	return all, nil
}

// extension ends the names of scenarios.
const extension = ".txt"

// FileName returns the name of a file for the scenario of a kind.
func FileName(kind string) string {
	return strings.NewReplacer(separator, "-", "+", "-").Replace(kind) + extension
}

// Lists reports whether a scenario lists a kind, or shows the rule broken with less: by some of its characters or a plain plugin, and by the
// same disturbance or none.
func (s Scenario) Lists(kind string) bool {
	return slices.ContainsFunc(s.Kinds, func(listed string) bool { return covers(listed, kind) })
}

// ParseScenario reads a scenario with the kinds that its comments name.
func ParseScenario(file, text string) (Scenario, error) {
	scenario := Scenario{File: path.Base(file)}
	for line := range strings.Lines(text) {
		if kind, ok := strings.CutPrefix(line, kindPrefix); ok {
			scenario.Kinds = append(scenario.Kinds, strings.TrimSpace(kind))
		}
	}
	var err error
	if scenario.Draw, err = draw.Parse(text); err != nil {
		return scenario, fmt.Errorf("%s: %w", file, err)
	}
	return scenario, nil
}

// Known returns the file of a kind that is known, empty if it is not.
func Known(kind string) string {
	all, err := KnownScenarios()
	if err != nil {
		return "" // a test reads the files
	}
	for _, scenario := range all {
		if scenario.Lists(kind) {
			return scenario.File
		}
	}
	return ""
}

// covers reports whether a kind has the same rule as another one, and no character or disturbance that the other lacks.
func covers(listed, kind string) bool {
	one, other := strings.Split(listed, separator), strings.Split(kind, separator)
	if len(one) != 3 || len(other) != 3 || one[0] != other[0] {
		return false
	}
	characters := strings.Split(other[1], "+")
	lacks := func(character string) bool { return !slices.Contains(characters, character) }
	return (one[1] == draw.Plugin{}.Name() || !slices.ContainsFunc(strings.Split(one[1], "+"), lacks)) &&
		(one[2] == string(draw.None) || one[2] == other[2])
}

// separator stands between the parts of a kind.
const separator = " x "

// RuleOf returns the rule of a kind.
func RuleOf(kind string) string {
	rule, _, _ := strings.Cut(kind, separator)
	return rule
}
