// Command demo shows Mooring at work: on a simulated cloud, on machines without a cloud, or on a real OpenStack. `make demo` runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mooring-ccm/mooring/dev/demo"
	"github.com/mooring-ccm/mooring/dev/demo/render"
	"github.com/mooring-ccm/mooring/dev/netlab"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

const demoLong = `demo starts a real control plane on loopback, a simulated cloud with 12 instances in 3 zones, two replicas of
cloud-controller-manager and 12 nodes that register as kubelets with --cloud-provider=external do. It shows each node's
way from tainted to ready, the routes to the nodes' pods, a Service's load balancer, an instance's resize arriving in the
labels, what becomes of nodes whose instances are off or gone or seem to be, and the standby taking over from the leader,
checks every step and ends with a summary.

With --provider=metal it shows load balancers and pod routes without a cloud: three machines, a real router (FRR or BIRD)
and a client behind it, each in a network namespace of its own, with real kube-proxies and management controllers that
speak Redfish. Nodes are initialized from an inventory, the router learns the way to their pods and to a Service, a
machine loses its power, the leader is killed, and a machine leaves the inventory; what becomes of the client's requests
is counted. That needs Linux, root, iproute2, nftables or iptables, and frr or bird2, and says which is missing.

With --provider=openstack it shows a real OpenStack: keystone, nova, neutron with OVN and octavia run on this machine, from
Debian's packages in a root directory of their own. Servers become nodes, a router gets the routes to their pods, a Service
gets a load balancer and a floating IP, servers are stopped, started and deleted, and keystone is away for a while; the calls
of the manager are shown. That needs Linux, root, 4 GiB of memory and the packages, which --install brings once.

The demo of the simulated cloud needs no privileges. Each demo leaves nothing behind. What is not built yet is built
first, which takes some minutes the first time. On a terminal it paints a picture, on a pipe it writes lines; NO_COLOR
switches colors off.

Periods are shorter than by default, to keep the demo short: the replicas run with --node-status-update-frequency=2s
instead of 5m, --node-monitor-period=1s instead of 5s, --node-deletion-min-age=1s instead of 2m,
--node-deletion-min-denial-time=1s instead of 10s,
--route-reconciliation-period=2s instead of 10s and --load-balancer-drift-check-period=2s instead of 10m, and the control plane
marks a node NotReady after 5s of silence instead of 50s. When a step fails, the logs of all processes are kept, and
the last line says where.

` + cli.ExitCodes

const demoExample = `  make demo                         show everything and clean up
  make demo ARGS=--provider=metal   show load balancers for machines without a cloud, as root
  make demo ARGS="--provider=openstack --install"
                                    show the services of a real OpenStack, as root
  make demo ARGS=--keep             leave everything running, with a KUBECONFIG to look around
  make demo ARGS="--cloud-fault operation=ListInstances,mode=status,status=503,count=5"
                                    see what happens when the cloud fails five times`

func main() { os.Exit(run()) }

func run() int { return cli.Run(newDemo()) }

func newDemo() *cobra.Command {
	var options demo.Options
	var faults []string
	var provider, router string
	var plain bool
	cmd := cli.NewGroup("demo", "Watch nodes being initialized on a real control plane", demoLong)
	cmd.Example = demoExample
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, text := range faults {
			fault, err := cloudsim.ParseFault(text)
			if err != nil {
				return cli.Usage(cmd, fmt.Errorf("--cloud-fault: %w", err))
			}
			options.Faults = append(options.Faults, fault)
		}
		if err := choose(&options, provider, router); err != nil {
			return cli.Usage(cmd, err)
		}
		if options.StepDeadline < 0 {
			return cli.Usage(cmd, fmt.Errorf("--step-deadline: %s: must not be negative", options.StepDeadline))
		}
		return runDemo(cmd, options, plain)
	}
	flags := cmd.Flags()
	flags.StringVar(&provider, "provider", string(demo.Simulated), "which environment to demonstrate: sim, metal or openstack")
	flags.BoolVar(&options.Install, "install", false, "install the packages of --provider=openstack if they are absent, in a root directory of their own")
	flags.StringVar(&router, "router", "", "the router of --provider=metal: frr or bird (default: whichever is installed)")
	flags.BoolVar(&options.Keep, "keep", false, "leave everything running until Ctrl-C, and say what to look at")
	flags.StringVar(&options.Daemon, "daemon", "",
		"`path` of cloud-controller-manager (default: the one beside this program, else it is built from the checkout)")
	flags.StringArrayVar(&faults, "cloud-fault", nil,
		"make the simulated cloud fail, as operation=OPERATION,mode=MODE[,status=N][,skip=N][,count=N][,retry-after=DURATION]; may be repeated")
	flags.DurationVar(&options.StepDeadline, "step-deadline", 0, "how long each step may take (default: what the step needs on a slow machine)")
	flags.BoolVar(&plain, "plain", false, "write lines on a terminal too")
	return cmd
}

// choose takes which environment is demonstrated, and with which router.
func choose(options *demo.Options, provider, router string) error {
	options.Provider, options.Router = demo.Provider(provider), netlab.Kind(router)
	switch {
	case !slices.Contains(demo.Providers(), options.Provider):
		return fmt.Errorf("--provider: %q: must be one of %q", provider, demo.Providers())
	case router != "" && !slices.Contains(netlab.Kinds(), options.Router):
		return fmt.Errorf("--router: %q: must be one of %q", router, netlab.Kinds())
	case router != "" && options.Provider != demo.Metal:
		return fmt.Errorf("--router: needs --provider=%s", demo.Metal)
	case options.Install && options.Provider != demo.OpenStack:
		return fmt.Errorf("--install: needs --provider=%s", demo.OpenStack)
	case len(options.Faults) > 0 && options.Provider != demo.Simulated:
		return fmt.Errorf("--cloud-fault: needs --provider=%s", demo.Simulated)
	}
	return nil
}

// runDemo chooses how the demo is shown.
func runDemo(cmd *cobra.Command, options demo.Options, plain bool) error {
	ctx, interrupt := context.WithCancel(cmd.Context())
	defer interrupt()
	out := cmd.OutOrStdout()
	options.Out = out
	if options.NeedsNamespaces() {
		return enterNamespaces(cmd, options)
	}
	options.Renderer = render.NewPlain(out)
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		options.Style.Color = !render.NoColor() && os.Getenv("TERM") != "dumb"
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			options.Style.Columns = min(width, 120)
		}
		if !plain && os.Getenv("TERM") != "dumb" {
			options.Renderer = render.NewTable(file, keyboard(), options.Style, interrupt)
		}
	}
	err := demo.Run(ctx, options)
	if errors.Is(err, demo.ErrInterrupted) {
		return cli.Interrupted(err)
	}
	if err == nil && options.Keep {
		_, _ = fmt.Fprintf(out, "Stopped at %s; nothing is left.\n", time.Now().Format(time.TimeOnly))
	}
	return err
}

// enterNamespaces runs the demo in another process of this program, in network namespaces.
func enterNamespaces(cmd *cobra.Command, options demo.Options) error {
	err := demo.Enter(cmd.Context(), options, demo.EnterOptions{
		Args: os.Args[1:], Progress: cmd.ErrOrStderr(),
	})
	var ended *netlab.EndError
	if !errors.As(err, &ended) || ended.Said == "" {
		return err
	}
	// What it said is this program's error as a line already.
	err = errors.New(strings.TrimSpace(strings.TrimPrefix(ended.Said, cmd.Root().Name()+": ")))
	if ended.ExitCode == cli.ExitInterrupted {
		return cli.Interrupted(err)
	}
	return err
}

// keyboard is the standard input if it is a terminal.
func keyboard() io.Reader {
	if term.IsTerminal(int(os.Stdin.Fd())) {
		return os.Stdin
	}
	return nil
}
