package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mooring-ccm/mooring/dev/demo/render"
	"github.com/mooring-ccm/mooring/dev/demo/scenario"
	"github.com/mooring-ccm/mooring/dev/netlab"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// cleanupTimeout is how long it may take to stop everything.
const cleanupTimeout = 20 * time.Second

// Options say how the demo is given. Out and Renderer are required.
type Options struct {
	// Provider says which environment is demonstrated. Empty means Simulated.
	Provider Provider
	// Install has OpenStack install its packages when they are absent.
	Install bool
	// Router is the routing suite for Metal. Empty means whichever is installed.
	Router netlab.Kind
	// Daemon is the path of the daemon, cloud-controller-manager. Empty means the one beside this program, and when there is
	// none, one that is built from the checkout.
	Daemon string
	// Keep leaves everything running after the last step until the context ends.
	Keep bool
	// Faults are what the simulated cloud does wrong, to show how the manager reacts.
	Faults []api.Fault
	// StepDeadline replaces the deadline of every step when it is not zero.
	StepDeadline time.Duration
	// Renderer shows the demo while it runs.
	Renderer render.Renderer
	// Out gets the summary, and what to look at with Keep. Style says how.
	Out   io.Writer
	Style render.Style
}

// Provider is a provider that the demo shows.
type Provider string

const (
	// Simulated is the provider sim: a simulated cloud, on loopback.
	Simulated Provider = "sim"
	// Metal is the provider metal: machines and a router in network namespaces, which needs root.
	Metal Provider = "metal"
	// OpenStack is the provider openstack: the services of a real OpenStack, on loopback, which needs root.
	OpenStack Provider = "openstack"
)

// Providers are the providers that the demo can show.
func Providers() []Provider { return []Provider{Simulated, Metal, OpenStack} }

// ErrInterrupted says that the context ended before the demo did.
var ErrInterrupted = errors.New("interrupted")

// StepError says which step of the demo failed.
type StepError struct {
	// Logs is the directory with the logs of all processes.
	Logs string
	// Err names the step and says what was missing.
	Err error
}

// Error says which step it was and where the logs are.
func (e *StepError) Error() string { return fmt.Sprintf("%v\nlogs are in %s", e.Err, e.Logs) }

// Unwrap returns what was missing.
func (e *StepError) Unwrap() error { return e.Err }

// Run gives the demo. It runs the demo of Metal only in network namespaces, which Enter makes.
//
// Run returns nil when every step happened, a *StepError when one did not, and ErrInterrupted when ctx ended before. In all cases it leaves no
// process and no file behind, except the logs that a StepError names.
func Run(ctx context.Context, options Options) error {
	events := &reporter{renderer: options.Renderer}
	defer events.close()
	s, err := newEnvironment(ctx, options, events.report)
	if err != nil {
		return err
	}
	all, err := s.sections(ctx)
	if err != nil {
		return errors.Join(err, s.stop(ctx), s.removeFiles())
	}
	events.report(scenario.Opened{At: time.Now(), Sections: outline(all, options.StepDeadline)})
	stopTicks := events.tick()
	played := s.play(s.life, all)
	stopTicks()
	model := events.close()

	interrupted := ctx.Err() != nil
	if interrupted {
		fmt.Fprintln(options.Out, "\nStopping everything ...")
	} else {
		fmt.Fprint(options.Out, render.Summary(model, options.Style))
		if played == nil && !options.Keep {
			fmt.Fprint(options.Out, render.Next(next(options.Provider), options.Style))
		}
	}
	if options.Keep && !interrupted && s.cluster != nil {
		if err := s.keep(ctx); err != nil {
			played = errors.Join(played, err)
		}
	}
	return s.end(ctx, played, interrupted)
}

// next are the commands that follow a demo of a provider.
func next(provider Provider) []render.Command {
	commands := []render.Command{{Line: "make demo ARGS=--keep", About: "the same, and leave it running for kubectl"}}
	if provider != Simulated && provider != "" {
		commands[0].Line = fmt.Sprintf("make demo ARGS=\"--provider=%s --keep\"", provider)
	} else {
		commands = append(commands,
			render.Command{Line: "make demo ARGS=--provider=metal", About: "load balancers for machines without a cloud (Linux, root)"},
			render.Command{Line: "make demo ARGS=--provider=openstack", About: "the services of a real OpenStack (Linux, root)"})
	}
	return append(commands,
		render.Command{Line: "bin/mooring check", About: "is a cluster of yours fit for a cloud controller manager?"},
		render.Command{Line: "bin/mooring build --help", About: "build a manager with your provider"})
}

// sections returns the steps of the provider, and prepares network namespaces if it needs them.
func (s *environment) sections(ctx context.Context) ([]section, error) {
	switch s.options.Provider {
	case Metal:
	case OpenStack:
		p, err := newPrivateCloud(s.options.Install)
		if err != nil {
			return nil, err
		}
		s.private = p
		return openstackSections(p, s.options.Install), nil
	default:
		return simSections(), nil
	}
	if err := netlab.Furnish(ctx); err != nil {
		return nil, fmt.Errorf("prepare the network namespaces: %w", err)
	}
	r, err := newRack(s.options.Router)
	if err != nil {
		return nil, err
	}
	s.rack, s.place = r, func(name string) (placement, error) { return r.place(s, name) }
	return metalSections(r), nil
}

// end stops everything, and keeps the logs when a step failed.
func (s *environment) end(ctx context.Context, played error, interrupted bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	stopped := s.stop(ctx)
	if interrupted {
		return errors.Join(ErrInterrupted, stopped, s.removeFiles())
	}
	if played != nil {
		if err := errors.Join(stopped, s.keepLogs()); err != nil {
			played = errors.Join(played, err)
		}
		return &StepError{Logs: s.logs, Err: played}
	}
	return errors.Join(stopped, s.removeFiles())
}
