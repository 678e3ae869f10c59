// Command bench-openstack measures the calls of managers on the services of a real OpenStack: this repository's daemon and, if its program is
// named, OpenStack's own manager.
//
//	bench-openstack [-upstream PROGRAM] [-servers N] [-services N] [-driver amphora|ovn] -daemon PROGRAM
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/openstack"
	"github.com/mooring-ccm/mooring/dev/openstack/bench"
	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

func main() {
	daemon := flag.String("daemon", "", "the program cloud-controller-manager")
	upstream := flag.String("upstream", "", "the program openstack-cloud-controller-manager of cloud-provider-openstack; empty: Mooring alone")
	servers := flag.Int("servers", 200, "how many servers join")
	services := flag.Int("services", 20, "how many Services get a load balancer")
	driver := flag.String("driver", "amphora", "octavia's driver: amphora, or ovn, which takes half a second for each member")
	logs := flag.String("logs", "", "directory for the logs of the managers; empty: none are kept")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	options := bench.Options{Servers: *servers, Services: *services, Driver: *driver, Logs: *logs}
	for _, program := range []bench.Program{{Name: "mooring", Path: *daemon}, {Name: "upstream", Path: *upstream, Upstream: true}} {
		if program.Path != "" {
			options.Programs = append(options.Programs, program)
		}
	}
	if err := run(ctx, options); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, options bench.Options) (err error) {
	if !slices.Contains([]string{"amphora", "ovn"}, options.Driver) {
		return fmt.Errorf("-driver=%s: it is amphora or ovn", options.Driver)
	}
	if len(options.Programs) == 0 || options.Servers < 2 || options.Services < 1 {
		return errors.New("needs -daemon or -upstream, two servers and a Service at the least")
	}
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
	if err := openstack.Install(ctx, openstack.Options{Progress: os.Stderr}); err != nil {
		return err
	}
	if options.Binaries, err = localcluster.Build(ctx, localcluster.BuildOptions{Progress: os.Stderr}); err != nil {
		return err
	}
	options.Display = progress.New(os.Stderr)
	results, err := bench.Run(ctx, options)
	if len(results) > 0 {
		fmt.Printf("%d servers, %d Services, driver %s\n\n%s\nall but the start together:\n%s\n%s", options.Servers, options.Services, options.Driver,
			bench.Table(results), bench.Ratios(results, "join", "balance", "one more", "delete"), bench.Kinds(results))
	}
	return err
}
