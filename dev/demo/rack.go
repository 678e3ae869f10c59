package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/mooring-ccm/mooring/dev/bmc/redfishsim"
	"github.com/mooring-ccm/mooring/dev/netlab"
)

// rack is what machines without a cloud stand in: the network, the router and the management controllers.
type rack struct {
	kind      netlab.Kind
	proxyMode string
	segment   *netlab.Segment
	router    *netlab.Router
	// outside is where the client is, behind the router.
	outside  *netlab.Host
	machines []*machine
	// sleeper is off at first, and no node.
	sleeper  *machine
	replicas map[string]*netlab.Host
	// bmc answers for the management controllers of all machines, at bmcURL.
	bmc    *redfishsim.Service
	bmcURL string

	// local and cluster are what the client asks for.
	local, cluster *exposed
	// died is when the machine did, and killed when the leader was.
	died, killed time.Time
}

// machine is a machine of the inventory and the node on it.
type machine struct {
	name   string
	id     string
	v4, v6 netip.Addr
	host   *netlab.Host
	proxy  *process
	// pod are the addresses of the server on it, once there is one.
	pod []netip.Addr
}

const (
	// machineCount is how many machines there are; the last one dies.
	machineCount = 3
	// asn is the autonomous system of the rack.
	asn = 64512
	// rackCIDRs is where the nodes' pod CIDRs come from.
	rackCIDRs = podCIDRs + ",fd00:244::/48"
)

// The segment has these addresses: the control plane's, the router's, and from the last two on those of replicas.
var (
	control4, control6 = netip.MustParsePrefix("10.78.0.1/16"), netip.MustParsePrefix("fd00:78::1/64")
	router4, router6   = netip.MustParsePrefix("10.78.0.2/16"), netip.MustParsePrefix("fd00:78::2/64")
	replica4, replica6 = netip.MustParseAddr("10.78.0.11"), netip.MustParseAddr("fd00:78::11")
)

// publicPool is where load balancers get their addresses from.
var publicPool = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28"), netip.MustParsePrefix("2001:db8:1::/120")}

// The client's network behind the router has these, of the ranges for documentation.
var (
	gateway = []netip.Prefix{netip.MustParsePrefix("198.51.100.1/24"), netip.MustParsePrefix("2001:db8:c::1/64")}
	client  = []netip.Prefix{netip.MustParsePrefix("198.51.100.10/24"), netip.MustParsePrefix("2001:db8:c::10/64")}
)

// build makes the rack.
func (r *rack) build() section {
	return section{name: "rack", title: "Rack", steps: []step{
		{
			name: "network", title: fmt.Sprintf("%d machines, a router and a client behind it, each in a network of its own", machineCount+1),
			deadline: stepDeadline, run: r.cable,
		},
		{name: "router", title: "a real router runs", deadline: stepDeadline, run: r.startRouter},
		{name: "bmc", title: "the machines' management controllers answer by Redfish", deadline: stepDeadline, run: r.serveBMC},
	}}
}

// cable makes the network of everybody.
func (r *rack) cable(ctx context.Context, s *environment) (detail string, err error) {
	if r.segment, err = netlab.NewSegment(ctx, control4, control6); err != nil {
		return "", err
	}
	host, err := r.segment.NewHost(ctx, "router", []netip.Prefix{router4, router6})
	if err != nil {
		return "", err
	}
	r.router = &netlab.Router{Kind: r.kind, Host: host, Dir: s.dir, ASN: asn, RouterID: router4.Addr()}
	if r.outside, err = host.Attach(ctx, "client", gateway, client); err != nil {
		return "", err
	}
	four, six := replica4, replica6
	for _, name := range []string{firstReplica, secondReplica} {
		if r.replicas[name], err = r.newHost(ctx, name, four, six); err != nil {
			return "", err
		}
		r.router.Neighbors = append(r.router.Neighbors, netlab.Neighbor{Address: four, ASN: asn})
		four, six = four.Next(), six.Next()
	}
	for i := range machineCount {
		m, err := r.newMachine(ctx, i+1)
		if err != nil {
			return "", err
		}
		r.machines = append(r.machines, m)
	}
	if r.sleeper, err = r.newMachine(ctx, machineCount+1); err != nil {
		return "", err
	}
	return fmt.Sprintf("machines in %s and %s; the client is %s and %s",
		control4.Masked(), control6.Masked(), client[0].Addr(), client[1].Addr()), nil
}

// newMachine makes a machine on the segment.
func (r *rack) newMachine(ctx context.Context, number int) (m *machine, err error) {
	m = &machine{
		name: fmt.Sprintf("metal-%d", number), id: fmt.Sprintf("serial-%d", number),
		v4: netip.AddrFrom4([4]byte{10, 78, 1, byte(number)}), v6: netip.MustParseAddr(fmt.Sprintf("fd00:78::1:%d", number)),
	}
	if m.host, err = r.newHost(ctx, m.name, m.v4, m.v6); err != nil {
		return nil, err
	}
	return m, errors.Join(m.host.Forward(), m.host.Blackhole(ctx, publicPool...))
}

// newHost makes a host on the segment, whose way to everywhere else is the router.
func (r *rack) newHost(ctx context.Context, name string, four, six netip.Addr) (*netlab.Host, error) {
	addrs := []netip.Prefix{netip.PrefixFrom(four, control4.Bits()), netip.PrefixFrom(six, control6.Bits())}
	return r.segment.NewHost(ctx, name, addrs, router4.Addr(), router6.Addr())
}

func (r *rack) startRouter(ctx context.Context, s *environment) (string, error) {
	daemons, err := r.router.Configure()
	if err != nil {
		return "", err
	}
	var names []string
	for _, daemon := range daemons {
		if _, err := s.startProcess("router", daemon.Name, daemon.Args...); err != nil {
			return "", err
		}
		// The next one looks for this one's socket once, and then only after ten seconds.
		if err := awaitCloud(ctx, func() error { _, err := os.Stat(daemon.Socket); return err }); err != nil {
			return "", err
		}
		names = append(names, daemon.Name)
	}
	return fmt.Sprintf("%s; AS %d, and it waits for %d neighbors to connect",
		strings.Join(names, " and "), asn, len(r.router.Neighbors)), nil
}

// The user of the management controllers.
const (
	bmcUser     = "mooring"
	bmcPassword = "demo"
)

// serveBMC serves one Redfish service for all machines, like the service of a chassis.
func (r *rack) serveBMC(_ context.Context, s *environment) (string, error) {
	var systems []redfishsim.System
	for _, m := range r.machines {
		systems = append(systems, redfishsim.System{ID: m.id})
	}
	r.bmc = redfishsim.New(bmcUser, bmcPassword, systems...)
	r.bmc.SetUUID(r.sleeper.id, r.sleeper.systemUUID())
	r.bmc.SetPower(r.sleeper.id, redfishsim.Off)
	address := control4.Addr().String()
	certificate, key, err := cert.GenerateSelfSignedCertKey(address, []net.IP{control4.Addr().AsSlice()}, nil)
	if err != nil {
		return "", fmt.Errorf("make the certificate of the management controllers: %w", err)
	}
	for path, content := range map[string][]byte{"bmc.crt": certificate, "bmc.key": key, "bmc-password": []byte(bmcPassword)} {
		if err := os.WriteFile(s.path(path), content, 0o600); err != nil {
			return "", err
		}
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return "", fmt.Errorf("listen for the management controllers: %w", err)
	}
	server := &http.Server{Handler: r.bmc, ReadHeaderTimeout: time.Second}
	s.onEnd(func(context.Context) error { return server.Close() })
	s.beside("management controllers", func(context.Context) error {
		return unlessClosed(server.ServeTLS(listener, s.path("bmc.crt"), s.path("bmc.key")))
	})
	r.bmcURL = "https://" + listener.Addr().String()
	return fmt.Sprintf("%s, %d systems are on and one is off", r.bmcURL, len(systems)), nil
}

func unlessClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// writeConfig writes the cloud config with the machines that are in the inventory.
func (r *rack) writeConfig(s *environment, machines []*machine) error {
	var inventory strings.Builder
	for i, m := range machines {
		fmt.Fprintf(&inventory, `  - name: %s
    id: %s
    zone: rack-%d
    addresses: [{address: %s}, {address: "%s"}]
    bmc: {redfish: {endpoint: "%s", systemID: %s}}
`, m.name, m.id, i+1, m.v4, m.v6, r.bmcURL, m.id)
	}
	fmt.Fprintf(&inventory, `  - name: %s
    id: %s
    zone: rack-%d
    labels: {example.com/pool: %s}
    systemUUID: %s
    addresses: [{address: %s}, {address: "%s"}]
    bmc: {redfish: {endpoint: "%s", systemID: %[2]s}}
`, r.sleeper.name, r.sleeper.id, machineCount+1, reserve, r.sleeper.systemUUID(), r.sleeper.v4, r.sleeper.v6, r.bmcURL)
	text := fmt.Sprintf(`apiVersion: metal.mooring.dev/v1alpha1
kind: MetalCloudConfig
inventory:
  defaults:
    region: basement
    machineType: r640
    bmc: {credentials: {username: %s, passwordFile: %q}, caFile: %q}
  machines:
%spower: {interval: 1s, timeout: 1s}
nodeGroups:
- name: %s
  machines: {labels: {example.com/pool: %[5]s}}
  capacity: {cpu: "4", memory: 8Gi, pods: "110"}
pools:
- name: public
  addresses: [%[6]s, "%[7]s"]
bgp:
  asn: %[8]d
  peers: [{name: router, address: %[9]s, asn: %[10]d, connectRetry: 2s}]
`, bmcUser, s.path("bmc-password"), s.path("bmc.crt"), inventory.String(), reserve, publicPool[0], publicPool[1], asn, router4.Addr(), asn)
	s.cloudConfig = s.path("cloud.yaml")
	if err := os.WriteFile(s.cloudConfig+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(s.cloudConfig+".new", s.cloudConfig)
}

// place has each replica run on a host of its own.
func (r *rack) place(s *environment, name string) (placement, error) {
	host, found := r.replicas[name]
	if !found {
		return placement{}, fmt.Errorf("there is no host for %s", name)
	}
	address := replica4
	if name == secondReplica {
		address = address.Next()
	}
	return placement{
		inside: host.Args(), address: netip.AddrPortFrom(address, 10258),
		flags: append(r.autoscalerFlags(s, address),
			"--cloud-provider=metal", "--allocate-node-cidrs", "--cluster-cidr="+rackCIDRs,
			"--leader-elect-lease-duration=5s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=1s"),
	}, nil
}

// invite says what there is to look at in a rack that is left running.
func (r *rack) invite(s *environment, line func(format string, args ...any)) {
	outside, _ := netlab.Inside()
	line("  alias netlab='nsenter --net --mount --pid --target $(pgrep --oldest --parent %d)'", outside)
	line("  netlab kubectl --kubeconfig %s get nodes,services -o wide", s.cluster.AdminKubeconfig())
	line("  netlab ip netns exec router ip route")
	if r.kind == netlab.FRR {
		line("  netlab vtysh -N router -c 'show bgp summary'")
	} else {
		line("  netlab birdc -s %s/bird.ctl show protocols", s.dir)
	}
	for _, e := range r.all() {
		for _, address := range e.addresses() {
			line("  netlab ip netns exec client curl 'http://%s/'", netip.AddrPortFrom(address.Addr(), 80))
		}
	}
	line("\nThe inventory can be changed, and all the rest of the cloud config: %s", s.cloudConfig)
	line("\nLogs are in %s", s.logs)
}
