package rack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/netlab"
	"github.com/mooring-ccm/mooring/dev/program"
)

const (
	// machines is how many machines take traffic.
	machines = 3
	// replicas is how many hosts of the control plane run replicas of a manager.
	replicas = 2
	// asn is the autonomous system of the router and of both programs.
	asn = 64512
	// healthPort is where kube-proxy says that it works.
	healthPort = 10256
	// stopGrace is how long a program may take to end.
	stopGrace = 10 * time.Second
)

var (
	controlPlane = netip.MustParsePrefix("10.78.0.1/16")
	routerAddr   = netip.MustParsePrefix("10.78.0.2/16")
	// pool is where load balancers get their addresses from: a part of the range for benchmarks (RFC 2544).
	pool = netip.MustParsePrefix("198.18.0.0/20")
)

// Options say what a rack is made of.
type Options struct {
	Programs Programs
	Binaries localcluster.Binaries
	// Kind is the router.
	Kind netlab.Kind
	// Dir gets logs and all other files.
	Dir string
}

// Rack is the network: a router, machines, and hosts of the control plane. It must be opened in a network namespace of its own.
type Rack struct {
	options  Options
	segment  *netlab.Segment
	router   *netlab.Host
	kernel   *netlink.Handle // of the router
	hosts    []*netlab.Host  // of the control plane
	machines []*machine
	programs []*program.Program // of the router
	runs     int
}

// machine is a machine, which becomes a node.
type machine struct {
	name string
	addr netip.Addr
	host *netlab.Host
	mac  string
	// proxy answers in the place of kube-proxy.
	proxy net.Listener
}

// Open makes the network and starts the router, which has the same configuration for every system: a session with each host and each machine.
func Open(ctx context.Context, options Options) (*Rack, error) {
	r := &Rack{options: options}
	if err := r.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open the rack: %w", err), r.Close(ctx))
	}
	return r, nil
}

func (r *Rack) open(ctx context.Context) (err error) {
	if r.segment, err = netlab.NewSegment(ctx, controlPlane); err != nil {
		return err
	}
	router := &netlab.Router{Kind: r.options.Kind, Dir: r.options.Dir, ASN: asn, RouterID: routerAddr.Addr()}
	if router.Host, err = r.segment.NewHost(ctx, "router", []netip.Prefix{routerAddr}); err != nil {
		return err
	}
	r.router = router.Host
	for i := range replicas {
		addr := netip.AddrFrom4([4]byte{10, 78, 0, byte(11 + i)})
		host, err := r.segment.NewHost(ctx, fmt.Sprintf("control%d", i+1), []netip.Prefix{netip.PrefixFrom(addr, controlPlane.Bits())}, routerAddr.Addr())
		if err != nil {
			return err
		}
		r.hosts = append(r.hosts, host)
		router.Neighbors = append(router.Neighbors, netlab.Neighbor{Address: addr, ASN: asn})
	}
	for i := range machines {
		m := &machine{name: fmt.Sprintf("n%d", i+1), addr: netip.AddrFrom4([4]byte{10, 78, 1, byte(i + 1)})}
		if m.host, err = r.segment.NewHost(ctx, m.name, []netip.Prefix{netip.PrefixFrom(m.addr, controlPlane.Bits())}, routerAddr.Addr()); err != nil {
			return err
		}
		if err := m.readMAC(); err != nil {
			return err
		}
		if err := m.serve(ctx); err != nil {
			return fmt.Errorf("answer in the place of kube-proxy on %s: %w", m.name, err)
		}
		r.machines = append(r.machines, m)
		router.Neighbors = append(router.Neighbors, netlab.Neighbor{Address: m.addr, ASN: asn})
	}
	return r.startRouter(ctx, router)
}

// serve answers on a machine as kube-proxy does, and forwards nothing.
func (m *machine) serve(ctx context.Context) (err error) {
	m.proxy, err = m.host.Listen(ctx, netip.AddrPortFrom(m.addr, healthPort))
	if err != nil {
		return err
	}
	well := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
	go func() { _ = (&http.Server{Handler: well, ReadHeaderTimeout: stopGrace}).Serve(m.proxy) }()
	return nil
}

func (r *Rack) startRouter(ctx context.Context, router *netlab.Router) error {
	daemons, err := router.Configure()
	if err != nil {
		return err
	}
	for _, daemon := range daemons {
		started, err := program.Start(program.Options{Name: daemon.Name, Path: daemon.Args[0], Args: daemon.Args[1:], Dir: r.options.Dir})
		if err != nil {
			return err
		}
		r.programs = append(r.programs, started)
		// The next one looks for this one's socket once, and then only after ten seconds.
		listens := func(context.Context) error { _, err := os.Stat(daemon.Socket); return err }
		if err := program.Await(ctx, daemon.Name+" listens", r.programs, listens); err != nil {
			return err
		}
	}
	return router.Host.Do(func() (err error) {
		r.kernel, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
}

// Close ends the router.
func (r *Rack) Close(ctx context.Context) error {
	var errs []error
	for _, p := range r.programs {
		errs = append(errs, p.Stop(ctx, stopGrace))
	}
	for _, m := range r.machines {
		errs = append(errs, m.proxy.Close())
	}
	return errors.Join(errs...)
}

// Table is what the router has in its kernel: the next hops of each address of a load balancer.
type Table map[netip.Addr][]netip.Addr

// Table reads the routes that the router has learned.
func (r *Rack) Table() (Table, error) {
	routes, err := r.kernel.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("read the routes of the router: %w", err)
	}
	table := Table{}
	for _, route := range routes {
		if route.Dst == nil {
			continue
		}
		to, ok := netip.AddrFromSlice(route.Dst.IP.To4())
		if !ok || !pool.Contains(to) {
			continue
		}
		gateways := []net.IP{route.Gw}
		if len(route.MultiPath) > 0 {
			gateways = nil
			for _, hop := range route.MultiPath {
				gateways = append(gateways, hop.Gw)
			}
		}
		for _, gateway := range gateways {
			if hop, ok := netip.AddrFromSlice(gateway.To4()); ok {
				table[to] = append(table[to], hop)
			}
		}
	}
	return table, nil
}

// poll is how often the router's kernel is read: the resolution of all times. A table of a thousand routes takes milliseconds to read.
const poll, longestPoll, pollShare = 5 * time.Millisecond, 100 * time.Millisecond, 20

// follow reads the router's kernel until done returns true, ctx ends or one of the programs does.
func (r *Rack) follow(ctx context.Context, programs []*program.Program, done func(Table, time.Time) bool) error {
	for {
		began := time.Now()
		table, err := r.Table()
		if err != nil {
			return err
		}
		if done(table, time.Now()) {
			return nil
		}
		for _, p := range programs {
			if err := p.Exited(); err != nil {
				return err
			}
		}
		select {
		case <-time.After(min(max(poll, pollShare*time.Since(began)), longestPoll)):
		case <-ctx.Done():
			return fmt.Errorf("the router has %d routes: %w", len(table), context.Cause(ctx))
		}
	}
}

// folder makes a folder for the files of a run.
func (r *Rack) folder(of string) (string, error) {
	r.runs++
	dir := filepath.Join(r.options.Dir, fmt.Sprintf("%d-%s", r.runs, strings.ToLower(of)))
	return dir, os.MkdirAll(dir, 0o755)
}
