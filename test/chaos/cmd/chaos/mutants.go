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

	"github.com/mooring-ccm/mooring/test/chaos/mutants"
)

// tryMutants builds managers with a mistake each and says by which rule each is found. One that is not found is an error.
func tryMutants(ctx context.Context, args []string) error {
	var s settings
	flags := s.flags("chaos mutants")
	only := flags.String("only", "", "names of mutants, separated by commas; empty means all")
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
	o.Lease, o.Bound, o.Patience, o.Progress, o.Watch = 8*time.Second, time.Minute, 2*time.Minute, nil, false
	dir := o.Dir
	var group errgroup.Group
	group.SetLimit(*parallel)
	unfound := make([]error, len(mutants.All()))
	for i, m := range mutants.All() {
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
			if len(found.Violations) > 0 {
				fmt.Printf("| `%s` | %s | `%s` |\n", m.Name, m.What, found.Violations[0].Rule)
				return nil
			}
			unfound[i] = fmt.Errorf("mutant %s is not found: %s", m.Name, m.What)
			if err != nil {
				unfound[i] = fmt.Errorf("mutant %s: %w", m.Name, err)
			}
			fmt.Println(unfound[i])
			return nil
		})
	}
	return errors.Join(append(unfound, group.Wait())...)
}
