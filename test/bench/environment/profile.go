package environment

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
)

// answerLimit is how long a manager may take to send a profile after the time that it is of.
const answerLimit = 30 * time.Second

// Profile takes two profiles of the first manager while a scenario happens: its processor time, and what it allocates. Both are written to
// dir, as SCENARIO-VARIANT-cpu.pprof and -allocs.pprof. The returned function waits for them and says what went wrong. There are none of a
// manager that is stopped meanwhile.
func (e *Environment) Profile(ctx context.Context, dir, scenario string, period time.Duration) (wait func() error) {
	ctx, cancel := context.WithTimeout(ctx, period+answerLimit)
	group, ctx := errgroup.WithContext(ctx)
	for kind, path := range map[string]string{"cpu": "profile", "allocs": "allocs"} {
		file := filepath.Join(dir, fmt.Sprintf("%s-%s-%s.pprof", scenario, e.options.Variant.Name, kind))
		group.Go(func() error {
			if err := e.download(ctx, "/debug/pprof/"+path+"?seconds="+strconv.Itoa(int(period.Seconds())), file); err != nil {
				return fmt.Errorf("take the profile %s: %w", filepath.Base(file), err)
			}
			return nil
		})
	}
	return func() error {
		defer cancel()
		if err := group.Wait(); !e.managers[0].stopped {
			return err
		}
		return nil
	}
}

// download writes what the first manager serves to a file. Its certificate is its own, so that nobody can vouch for it.
func (e *Environment) download(ctx context.Context, path, file string) error {
	config := e.cluster.AdminConfig()
	config.Insecure, config.CAData, config.CAFile = true, nil, ""
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.managers[0].url+path, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, content)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}
