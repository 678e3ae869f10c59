package tables

import (
	"context"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

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
	return c.play(func(scripts [2]*Script) (outcomes [2]Outcome, err error) {
		if outcomes[0], err = Play(t, scripts[0], managers.Reference); err == nil {
			outcomes[1], err = Play(t, scripts[1], manager)
		}
		return outcomes, err
	})
}

// PlayOn is Play on real API servers and in real time, with both managers at the same time.
func (c Case) PlayOn(ctx context.Context, manager *managers.Manager, reference, other Genuine) (Result, error) {
	return c.play(func(scripts [2]*Script) (outcomes [2]Outcome, err error) {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() (err error) {
			outcomes[0], err = reference.Play(ctx, scripts[0], managers.Reference)
			return err
		})
		group.Go(func() (err error) {
			outcomes[1], err = other.Play(ctx, scripts[1], manager)
			return err
		})
		return outcomes, group.Wait()
	})
}

// play plays the case as it is, and in a cluster whose nodes a cloud has initialized if that is another case.
func (c Case) play(both func([2]*Script) ([2]Outcome, error)) (Result, error) {
	result := Result{}
	for _, initialized := range []bool{false, true} {
		var scripts [2]*Script
		for i := range scripts {
			script, err := c.build(c.Read(), c.part)
			if err != nil {
				return Result{}, err
			}
			if initialized && !script.initialized() {
				return result, nil
			}
			scripts[i] = script
		}
		outcomes, err := both(scripts)
		if err != nil {
			return Result{}, err
		}
		differences := Compare(outcomes[0], outcomes[1])
		if initialized {
			result.Initialized, result.Twice = differences, true
		} else {
			result.Differences = differences
		}
	}
	return result, nil
}
