package layer2_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/layer2"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

const (
	vip4, vip6 = "10.99.0.200", "fd99::200"
	// tableVariable holds the table of a replica that is a process of its own.
	tableVariable = "MOORING_TEST_L2_TABLE"
)

// announced is a table in which both addresses have a node, a number in 10.99.0.0/24 and fd99::/64, as next hop.
func announced(node int) routing.Table {
	result := routing.Table{}
	for _, vip := range []netip.Addr{netip.MustParseAddr(vip4), netip.MustParseAddr(vip6)} {
		route := routing.Route{Prefix: netip.PrefixFrom(vip, vip.BitLen()), Kind: routing.ServiceAddress}
		hop := fmt.Sprintf("10.99.0.%d", node)
		if vip.Is6() {
			hop = fmt.Sprintf("fd99::%d", node)
		}
		route.Segment = netip.MustParseAddr(hop)
		result[route.Prefix] = route
	}
	return result
}

// TestReplicaProcess is a replica that leads until it is killed.
func TestReplicaProcess(t *testing.T) {
	encoded := os.Getenv(tableVariable)
	if encoded == "" {
		return // only a process that TestKernelClients starts
	}
	var node int
	if err := json.Unmarshal([]byte(encoded), &node); err != nil {
		t.Fatal(err)
	}
	responder := layer2.New(&config.L2{}, prometheus.NewRegistry())
	if err := responder.Announce(t.Context(), announced(node)); err != nil {
		t.Fatal(err)
	}
	responder.Run(t.Context())
}

// TestKernelClients has the kernel of a client, on a segment with two nodes and two replicas, resolve the addresses. Rules that
// translate them stand for kube-proxy.
func TestKernelClients(t *testing.T) {
	if !sandbox.Inside() {
		sandbox.Require(t, "ip", "nft", "nsenter", "arping")
		sandbox.Run(t, sandbox.Options{})
		return
	}
	sandbox.Furnish(t)
	segment := sandbox.NewSegment(t, netip.MustParsePrefix("10.99.0.1/24"), netip.MustParsePrefix("fd99::1/64"))
	host := func(name string, i int) *sandbox.Host {
		return segment.NewHost(t, name,
			netip.MustParsePrefix(fmt.Sprintf("10.99.0.%d/24", i)), netip.MustParsePrefix(fmt.Sprintf("fd99::%d/64", i)))
	}
	client, replica1, replica2 := host("client", 100), host("replica1", 2), host("replica2", 3)
	macs := map[string]string{}
	for i, name := range map[int]string{11: "node1", 12: "node2"} {
		node := host(name, i)
		serve(t, node, i)
		macs[name] = linkOf(t, node)
	}
	c := &clientHost{client, macs}

	leader := startReplica(t, replica1, 11)
	first := c.await(t, vip4)
	for _, vip := range []string{vip4, vip6} {
		name := c.await(t, vip)
		if got := c.neighbor(t, vip); got != macs[name] {
			t.Errorf("%s is at %s, and answered by %s, which is at %s", vip, got, name, macs[name])
		}
	}
	c.independent(t, first)

	t.Run("clients that know the address do not notice a killed replica", func(t *testing.T) {
		kill(t, leader)
		for range 40 {
			// A busy machine may be slow. A client that has lost the address has no answer at all.
			if got, err := c.get(t, vip4, 5*time.Second); err != nil || got != first {
				t.Fatalf("%q, %v", got, err)
			}
		}
	})
	t.Run("the next leader answers the other clients", func(t *testing.T) {
		sandbox.Command(t, append(client.Args(), "ip", "neigh", "flush", "all")...)
		began := time.Now()
		leader = startReplica(t, replica2, 11)
		c.await(t, vip4)
		c.await(t, vip6)
		took := time.Since(began)
		t.Logf("after the lease has moved: %s, with the start of the process", took.Round(time.Millisecond))
		if took > 3*time.Second {
			t.Errorf("it took %s", took)
		}
		kill(t, leader)
	})
	t.Run("clients follow a change of the next hop", func(t *testing.T) { followChange(t, c) })
	t.Run("kube-proxy with IPVS needs strictARP", func(t *testing.T) { strictARP(t, c, host("ipvs", 13)) })
	t.Run("a host that missed a change learns of it", func(t *testing.T) { learnLate(t, &clientHost{host("late", 101), macs}) })
}

// strictARP has a node have an address on another interface, as kube-proxy with IPVS puts every address of a load balancer on
// kube-ipvs0; that loopback stands for it makes no difference to ARP. The kernel answers for the address, unless the sysctls are set
// that ipvs.strictARP stands for.
func strictARP(t *testing.T, c *clientHost, node *sandbox.Host) {
	const vip = "10.99.0.210"
	run := func(args ...string) { sandbox.Command(t, append(node.Args(), args...)...) }
	run("ip", "addr", "add", vip+"/32", "dev", "lo")
	answered := func() bool {
		args := append(c.Args(), "arping", "-c", "1", "-w", "1", "-I", "eth0", vip)
		output, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
		if !strings.Contains(string(output), "Sent") {
			t.Fatalf("arping: %v\n%s", err, output)
		}
		return strings.Contains(strings.ToLower(string(output)), linkOf(t, node))
	}
	if !answered() {
		t.Error("the node does not answer without strictARP: the guide says that it does")
	}
	run("sysctl", "-w", "net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.arp_announce=2")
	if answered() {
		t.Error("the node answers with strictARP")
	}
}

// learnLate has a host remember the wrong node, and never ask: as one that was not connected when a change was announced, and keeps
// what it knows for hours.
func learnLate(t *testing.T, c *clientHost) {
	ctx, cancel := context.WithCancel(t.Context())
	every := &metav1.Duration{Duration: 500 * time.Millisecond}
	responder := layer2.New(&config.L2{Interfaces: []string{"segment"}, GratuitousInterval: every}, prometheus.NewRegistry())
	if err := responder.Announce(ctx, announced(11)); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		responder.Run(ctx)
	}()
	defer func() { cancel(); <-done }()
	announcedAll := time.Now().Add(4 * time.Second) // the last of the answers that follow a change
	poll.Until(t, "the announcement of the change is over", func(context.Context) error { return poll.Holds(time.Now().After(announcedAll)) })
	know := func(node string) {
		for _, vip := range []string{vip4, vip6} {
			sandbox.Command(t, append(c.Args(), "ip", "neigh", "replace", vip, "lladdr", c.macs[node], "dev", "eth0", "nud", "stale")...)
		}
	}
	know("node2")
	for _, vip := range []string{vip4, vip6} {
		poll.Until(t, vip+" is known to be at node1", func(context.Context) error {
			return poll.Holds(c.neighbor(t, vip) == c.macs["node1"])
		})
	}
}

// followChange runs a replica in this process, takes away the node that has the traffic, and sees clients follow.
func followChange(t *testing.T, c *clientHost) {
	ctx, cancel := context.WithCancel(t.Context())
	responder := layer2.New(&config.L2{Interfaces: []string{"segment"}}, prometheus.NewRegistry())
	done := make(chan struct{})
	go func() {
		defer close(done)
		responder.Run(ctx)
	}()
	defer func() { cancel(); <-done }()
	other := map[string]int{"node1": 12, "node2": 11}
	for range 2 {
		had := c.await(t, vip4)
		began := time.Now()
		if err := responder.Announce(ctx, announced(other[had])); err != nil {
			t.Fatal(err)
		}
		for _, vip := range []string{vip4, vip6} {
			poll.Until(t, vip+" goes away from "+had, func(context.Context) error {
				got, _ := c.get(t, vip, soon)
				return poll.Holds(got != had)
			})
		}
		took := time.Since(began)
		t.Logf("away from %s in %s", had, took.Round(time.Millisecond))
		if took > 3*time.Second {
			t.Errorf("it took %s", took)
		}
	}
	if answer := responder.Answers()[netip.MustParseAddr(vip6)]; answer.Interface != "segment" || answer.MAC == "" {
		t.Errorf("said to be told: %+v", answer)
	}
	elsewhere := netip.MustParsePrefix("192.0.2.1/32")
	if err := responder.Announce(ctx, routing.Table{elsewhere: {Prefix: elsewhere, Kind: routing.ServiceAddress}}); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the problem of an address on no network", func(context.Context) error {
		_, problem := responder.Answering(elsewhere.Addr())
		return poll.Holds(problem != "")
	})
}

// clientHost asks for the addresses as any host does.
type clientHost struct {
	*sandbox.Host
	macs map[string]string
}

// soon is how long a request may take where another one follows it.
const soon = 300 * time.Millisecond

// get makes one request over a new connection and returns which node answered. The connection and the answer each have the limit.
func (c *clientHost) get(t *testing.T, vip string, limit time.Duration) (string, error) {
	t.Helper()
	var body string
	var err error
	inside(t, c.Host, func() {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		var conn net.Conn
		// Dialling must stay on this thread, which is in the namespace.
		if conn, err = (&net.Dialer{FallbackDelay: -1}).DialContext(ctx, "tcp", net.JoinHostPort(vip, "80")); err != nil {
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(limit))
		_, _ = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
		var answer []byte
		answer, err = io.ReadAll(conn)
		_, body, _ = strings.Cut(string(answer), "\r\n\r\n")
	})
	return body, err
}

// await makes requests until one is answered.
func (c *clientHost) await(t *testing.T, vip string) string {
	t.Helper()
	var body string
	poll.Until(t, "an answer from "+vip, func(context.Context) error {
		var err error
		if body, err = c.get(t, vip, soon); err == nil && body != "" {
			return nil
		}
		return fmt.Errorf("%v\n%s", err, sandbox.Command(t, append(c.Args(), "ip", "neigh")...))
	})
	return body
}

// neighbor returns where the client's kernel takes an address to be.
func (c *clientHost) neighbor(t *testing.T, vip string) string {
	t.Helper()
	var entries []struct {
		LLAddr string `json:"lladdr"`
	}
	output := sandbox.Command(t, append(c.Args(), "ip", "-json", "neigh", "show", "to", vip, "dev", "eth0")...)
	if err := json.Unmarshal([]byte(output), &entries); err != nil || len(entries) != 1 {
		t.Fatalf("neighbors: %s, %v", output, err)
	}
	return entries[0].LLAddr
}

// independent has a program of others decode an answer. The kernel is another.
func (c *clientHost) independent(t *testing.T, node string) {
	t.Helper()
	output := sandbox.Command(t, append(c.Args(), "arping", "-c", "1", "-w", "3", "-I", "eth0", vip4)...)
	if !strings.Contains(strings.ToLower(output), "["+c.macs[node]+"]") {
		t.Errorf("arping says: %s, want %s", output, c.macs[node])
	}
}

// serve has a node answer with its name, behind rules as kube-proxy writes them.
func serve(t *testing.T, node *sandbox.Host, i int) {
	t.Helper()
	const translate = "table %s nat {\nchain prerouting {\ntype nat hook prerouting priority dstnat\n" +
		"%s daddr %s tcp dport 80 dnat to %s:8080\n}\n}\n"
	rules := fmt.Sprintf(translate, "ip", "ip", vip4, fmt.Sprintf("10.99.0.%d", i)) +
		fmt.Sprintf(translate, "ip6", "ip6", vip6, fmt.Sprintf("[fd99::%d]", i))
	file := filepath.Join(t.TempDir(), "rules")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	sandbox.Command(t, append(node.Args(), "nft", "-f", file)...)
	var listener net.Listener
	var err error
	inside(t, node, func() { listener, err = net.Listen("tcp", ":8080") })
	if err != nil {
		t.Fatal(err)
	}
	name := node.Name
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) })}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
}

func linkOf(t *testing.T, host *sandbox.Host) string {
	t.Helper()
	var links []struct {
		Address string `json:"address"`
	}
	output := sandbox.Command(t, append(host.Args(), "ip", "-json", "link", "show", "dev", "eth0")...)
	if err := json.Unmarshal([]byte(output), &links); err != nil || len(links) != 1 {
		t.Fatalf("links: %s, %v", output, err)
	}
	return links[0].Address
}

// startReplica starts a process that leads, on a host.
func startReplica(t *testing.T, host *sandbox.Host, node int) *exec.Cmd {
	t.Helper()
	encoded, err := json.Marshal(node)
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append(host.Args(), binary, "-test.run=^TestReplicaProcess$")
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), tableVariable+"="+string(encoded))
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // says that it was killed
}

// inside runs a function on a thread that is in the host's network. The thread is given up afterwards.
func inside(t *testing.T, host *sandbox.Host, do func()) {
	t.Helper()
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		var file *os.File
		if file, err = os.Open("/run/netns/" + host.Name); err != nil {
			return
		}
		defer file.Close()
		if err = unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err == nil {
			do()
		}
	}()
	<-done
	if err != nil {
		t.Fatalf("entering %s: %v", host, err)
	}
}
