package environment

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
)

// answerLimit is how long a manager may take to send a profile after the time that it is of.
const answerLimit = 30 * time.Second

// Profile takes two profiles of the manager started last while a scenario happens: its processor time, and what it allocates. Both are written to
// dir, as SCENARIO-VARIANT-cpu.pprof and -allocs.pprof. The returned function waits for them and says what went wrong. There are none of a
// manager that is stopped meanwhile.
func (e *Environment) Profile(ctx context.Context, dir, scenario string, period time.Duration) (wait func() error) {
	ctx, cancel := context.WithTimeout(ctx, period+answerLimit)
	group, ctx := errgroup.WithContext(ctx)
	for kind, path := range map[string]string{"cpu": "profile", "allocs": "allocs"} {
		file := filepath.Join(dir, fmt.Sprintf("%s-%s-%s.pprof", scenario, e.options.Variant.Name, kind))
		group.Go(func() error {
			if err := e.download(ctx, "/debug/pprof/"+path, period, file); err != nil {
				return fmt.Errorf("take the profile %s: %w", filepath.Base(file), err)
			}
			return nil
		})
	}
	return func() error {
		defer cancel()
		if err := group.Wait(); !e.managers[len(e.managers)-1].stopped {
			return err
		}
		return nil
	}
}

// download writes what it serves to a file.
func (e *Environment) download(ctx context.Context, path string, period time.Duration, file string) error {
	content, err := e.managers[len(e.managers)-1].endpoint.OK(ctx, fmt.Sprintf("%s?seconds=%d", path, int(period.Seconds())), "")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(content), 0o644)
}
