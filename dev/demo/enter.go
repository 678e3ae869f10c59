package demo

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/mooring-ccm/mooring/dev/demo/scenario"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/netlab"
)

// NeedsNamespaces reports whether the demo runs in network namespaces, and this process is not there yet: Enter is called then instead of
// Run.
func (o Options) NeedsNamespaces() bool {
	_, inside := netlab.Inside()
	return o.Provider == Metal && !inside
}

// EnterOptions say how this program is run again in network namespaces.
type EnterOptions struct {
	// Args are its arguments.
	Args []string
	// Progress gets lines while something is built.
	Progress io.Writer
}

// Enter builds what the demo needs, while there is a network to do that with, and gives it in network namespaces: this program runs again, with
// the same arguments, in namespaces of its own, and calls Run there. It returns a *netlab.MissingError, at once, if this machine lacks
// something, and a *netlab.EndError if the program there did not end well.
func Enter(ctx context.Context, options Options, enter EnterOptions) error {
	if _, _, err := netlab.Check(options.Router); err != nil {
		return fmt.Errorf("--provider=%s: %w", Metal, err)
	}
	s, err := newEnvironment(ctx, options, func(event scenario.Event) {
		if moved, ok := event.(scenario.StepMoved); ok {
			_, _ = fmt.Fprintln(enter.Progress, moved.Detail)
		}
	})
	if err != nil {
		return err
	}
	err = s.enter(enter)
	return errors.Join(err, s.stop(context.WithoutCancel(ctx)), s.removeFiles())
}

func (s *environment) enter(enter EnterOptions) error {
	_, err := localcluster.Build(s.life, localcluster.BuildOptions{Parts: localcluster.Parts(), Progress: enter.Progress})
	if err == nil {
		_, err = findDaemon(s.life, s)
	}
	if err == nil {
		err = netlab.Enter(s.life, append(enter.Args, "--daemon="+s.daemon), s.options.Out) // there is no network inside to build one
	}
	return err
}
