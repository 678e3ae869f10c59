package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mooring-ccm/mooring/dev/chaos/runner"
	"github.com/mooring-ccm/mooring/dev/chaos/schedule"
	"github.com/mooring-ccm/mooring/dev/chaos/shrink"
)

// shorten finds the shortest part of a schedule that still fails, and prints it.
func shorten(ctx context.Context, args []string) error {
	var s settings
	flags := s.flags("chaos shrink")
	s.clockFlag(flags)
	tries := flags.Int("tries", 30, "how many schedules are run at most")
	if err := flags.Parse(args); err != nil {
		return err
	}
	planned, err := s.schedule()
	if err != nil {
		return err
	}
	o, err := s.prepare(ctx)
	if err != nil {
		return err
	}
	o.UntilViolation, o.Progress = true, nil
	rule, number, dir := "", 0, o.Dir
	var broken error
	fails := func(candidate schedule.Schedule) bool {
		if broken != nil || ctx.Err() != nil {
			return false
		}
		number++
		o.Dir = filepath.Join(dir, fmt.Sprint(number))
		if broken = os.MkdirAll(o.Dir, 0o755); broken != nil {
			return false
		}
		found, err := runner.Run(ctx, candidate, o)
		switch {
		case len(found.Violations) > 0:
		case err != nil:
			fmt.Printf("run %d: %d operations: it could not be made: %v\n", number, len(candidate), err)
			return false
		default:
			fmt.Printf("run %d: %d operations: all rules held\n", number, len(candidate))
			return false
		}
		first := found.Violations[0]
		line, _, _ := strings.Cut(first.String(), "\n") // a panic has a stack
		fmt.Printf("run %d: %d operations: %s\n", number, len(candidate), line)
		if rule == "" {
			rule = first.Rule
		}
		return first.Rule == rule // another mistake is another search
	}
	if !fails(planned) {
		return errors.Join(broken, ctx.Err(), errors.New("the schedule does not fail here"))
	}
	shortest := shrink.Shortest(planned, *tries, fails)
	fmt.Printf("\n# %s does not hold.\n%s", rule, shortest)
	return os.WriteFile(filepath.Join(dir, "shortest.txt"), []byte(shortest.String()), 0o644)
}
