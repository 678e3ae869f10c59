package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/mooring-ccm/mooring/internal/gobuild"
)

// figuresLimit bounds the check of figures, which reads one file.
const figuresLimit = time.Minute

// figures returns an error if the checkout has no figures of the benchmark for the version, or some of other sizes than those of a
// full run. The module of the benchmark knows which these are. A prerelease needs none.
func (r *run) figures(ctx context.Context) error {
	if strings.Contains(r.Version, "-") { // checkVersion has found nothing else that it can be
		return nil
	}
	program := filepath.Join(r.scratch, "report")
	err := gobuild.Build(ctx, gobuild.Options{
		Dir: filepath.Join(r.Root, "dev", "bench"), Package: "./cmd/report", Name: "the check of figures", Output: program, Display: r.display,
		Flags: []string{"-mod=readonly"}, Env: []string{"GOWORK=off"},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, figuresLimit)
	defer cancel()
	command := exec.CommandContext(ctx, program, "--docs="+filepath.Join(r.Root, "docs"), "--check="+r.Version)
	var said bytes.Buffer
	command.Stderr = &said
	if err := command.Run(); err != nil {
		text := strings.TrimPrefix(strings.TrimSpace(said.String()), "error: ")
		if exited := (*exec.ExitError)(nil); errors.As(err, &exited) && exited.Exited() && text != "" {
			return errors.New(text)
		}
		return fmt.Errorf("check the figures: %w: %s", err, text)
	}
	return nil
}
