package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mooring-ccm/mooring/dev/chaos/mutants"
	"github.com/mooring-ccm/mooring/dev/chaos/report"
)

// tryMutants builds managers with a mistake each and says by which rule each is found. One that is not found is an error.
func tryMutants(ctx context.Context, args []string) error {
	var s settings
	flags := s.flags("chaos mutants")
	only := flags.String("only", "", "names of mutants, separated by commas; empty means all")
	unchanged := flags.Bool("unchanged", false, "run the schedules of the mutants against the manager as it is, in which nothing may be found")
	parallel := flags.Int("parallel", 2, "how many are tried at once")
	if err := flags.Parse(args); err != nil {
		return err
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	root, err := mutants.Root(here)
	if err != nil {
		return err
	}
	s.binary = "built for each" // the unchanged manager is not needed
	o, err := s.prepare(ctx)
	if err != nil {
		return err
	}
	o.Lease, o.Bound, o.Patience, o.Progress, o.Watch = 8*time.Second, 90*time.Second, 5*time.Minute, nil, false
	dir, all := o.Dir, mutants.All()
	if *unchanged {
		all = mutants.Unchanged()
	}
	var group errgroup.Group
	group.SetLimit(*parallel)
	unfound := make([]error, len(all))
	for i, m := range all {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), m.Name) {
			continue
		}
		group.Go(func() error {
			one := o
			one.Dir = filepath.Join(dir, m.Name)
			if err := os.MkdirAll(one.Dir, 0o755); err != nil {
				return err
			}
			found, err := m.Try(ctx, root, one)
			unfound[i] = judge(m, found, err, *unchanged)
			return nil
		})
	}
	return errors.Join(append(unfound, group.Wait())...)
}

// judge says what came of a mutant, and returns what is wrong with that.
func judge(m mutants.Mutant, found report.Report, err error, unchanged bool) error {
	switch {
	case len(found.Violations) > 0 && unchanged:
		err = fmt.Errorf("%s: found in the manager as it is: %s", m.Name, found.Violations[0])
	case len(found.Violations) > 0:
		fmt.Printf("| `%s` | %s | `%s` |\n", m.Name, m.What, found.Violations[0].Rule)
		return nil
	case err != nil:
		err = fmt.Errorf("mutant %s: %w", m.Name, err)
	case unchanged:
		fmt.Printf("%s: all rules held\n", m.Name)
		return nil
	default:
		err = fmt.Errorf("mutant %s is not found: %s", m.Name, m.What)
	}
	fmt.Println(err)
	return err
}
