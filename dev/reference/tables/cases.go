package tables

import (
	"fmt"
	"testing"

	"github.com/mooring-ccm/mooring/dev/reference/upstream"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
)

// Case is one case of the reference's.
type Case struct {
	*upstream.Case
	part  int
	build builder
}

// Cases returns the cases of a package. Each of its tests has a builder.
func Cases(pkg *upstream.Package) ([]Case, error) {
	var cases []Case
	for _, test := range pkg.Tests() {
		name := pkg.Name + "." + test.Name
		build := builders[name]
		if build == nil {
			return nil, fmt.Errorf("scripts.go says nothing about the test %s of the reference", name)
		}
		for _, one := range test.Cases() {
			for part := range max(1, partsOf[name]) {
				cases = append(cases, Case{Case: one, part: part, build: build})
			}
		}
	}
	return cases, nil
}

// ID names the case within all of them.
func (c Case) ID() string {
	return fmt.Sprintf("%s.%s/%02d %s", c.Test.Package.Name, c.Test.Name, c.Index+c.part+1, c.Name)
}

// Result is what differs in a case under two managers.
type Result struct {
	// Differences are those of the case as it is, Initialized those of the case in a cluster whose nodes a cloud has initialized, if that is another case.
	Differences, Initialized []string
	// Twice says that Initialized counts.
	Twice bool
}

// Play plays the case under the reference and another manager. The error is Unplayable if it cannot be played.
func (c Case) Play(t *testing.T, manager *managers.Manager) (Result, error) {
	differences, _, err := c.play(t, manager, false)
	if err != nil {
		return Result{}, err
	}
	initialized, twice, err := c.play(t, manager, true)
	return Result{Differences: differences, Initialized: initialized, Twice: twice}, err
}

func (c Case) play(t *testing.T, manager *managers.Manager, initialized bool) (differences []string, other bool, err error) {
	var outcomes []Outcome
	for _, one := range []*managers.Manager{managers.Reference, manager} {
		script, err := c.build(c.Read(), c.part)
		if err != nil {
			return nil, false, err
		}
		if initialized && !script.initialized() {
			return nil, false, nil
		}
		outcome, err := Play(t, script, one)
		if err != nil {
			return nil, false, err
		}
		outcomes = append(outcomes, outcome)
	}
	return Compare(outcomes[0], outcomes[1]), true, nil
}
