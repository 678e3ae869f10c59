package metal_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/dev/e2e/rack"
	"github.com/mooring-ccm/mooring/dev/e2e/router"
	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// allocate gives each node pod CIDRs of both families.
func (l *fixture) allocate(t *testing.T) {
	t.Helper()
	for _, m := range l.machines {
		cidrs := m.podCIDRs()
		patch := fmt.Sprintf(`{"spec": {"podCIDR": %q, "podCIDRs": [%q, %q]}}`, cidrs[0], cidrs[0], cidrs[1])
		_, err := l.client.CoreV1().Nodes().Patch(t.Context(), m.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		must.NoError(t, err)
	}
}

// awaitPodRoutes waits until the router knows the pods of exactly these machines.
func (l *fixture) awaitPodRoutes(t *testing.T, of ...*machine) {
	t.Helper()
	want := map[netip.Prefix]netip.Addr{}
	for _, m := range of {
		cidrs := m.podCIDRs()
		want[netip.MustParsePrefix(cidrs[0])], want[netip.MustParsePrefix(cidrs[1])] = m.Addr4().Addr(), m.Addr6().Addr()
	}
	poll.Until(t, fmt.Sprintf("the router knows the pods of %d nodes", len(of)), func(context.Context) error {
		got := map[netip.Prefix]netip.Addr{}
		for prefix, hops := range l.router.FIB(t) {
			if text := prefix.String(); (strings.HasPrefix(text, "10.244.") || strings.HasPrefix(text, "fd00:244:")) && len(hops) == 1 {
				got[prefix] = hops[0]
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("it has %v, want %v", got, want)
		}
		return nil
	})
}

// leader returns the replica that leads.
func (l *fixture) leader(t *testing.T) *replica {
	t.Helper()
	var found *replica
	poll.Until(t, "a replica leads", func(ctx context.Context) error {
		_, err := l.client.CoordinationV1().Leases("kube-system").Get(ctx, "cloud-controller-manager", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, r := range l.replicas {
			if strings.Contains(r.Log(), "Initialized the cloud provider") {
				found = r
				return nil
			}
		}
		return errors.New("none has initialized the provider")
	})
	return found
}

// awaitStarted waits until both replicas have all that they need for their start from the API server.
func (l *fixture) awaitStarted(t *testing.T) {
	t.Helper()
	poll.Until(t, "both replicas serve their secure ports", func(context.Context) error {
		for _, r := range l.replicas {
			if !strings.Contains(r.Log(), "Serving securely on") {
				return fmt.Errorf("replica %d does not yet", r.index)
			}
		}
		return nil
	})
}

// awaitReady waits for what a kubelet waits for.
func (l *fixture) awaitReady(t *testing.T, r *replica) {
	t.Helper()
	poll.Until(t, r.Name+" is ready", func(ctx context.Context) error {
		return errors.Join(r.Runs(), l.curl(ctx, r.host, "https://127.0.0.1:10258/readyz"))
	})
}

// curl asks a program on a host for something, and returns an error unless its answer is in the 200s.
func (l *fixture) curl(ctx context.Context, host *sandbox.Host, url string) error {
	args := append(host.Args(), "curl", "-sk", "--fail-with-body", "--max-time", "5", url)
	if said, err := exec.CommandContext(ctx, args[0], args[1:]...).Output(); err != nil {
		return fmt.Errorf("%s: %w: %s", url, err, said)
	}
	return nil
}

// awaitSessions waits until both replicas have announced everything to the router.
func (l *fixture) awaitSessions(t *testing.T) {
	t.Helper()
	poll.Until(t, "the router has a session with each replica", func(context.Context) error {
		return l.sessions(t, len(l.replicas))
	})
}

// sessions returns an error unless the router has so many sessions over which it received something.
func (l *fixture) sessions(t *testing.T, want int) error {
	t.Helper()
	up := 0
	for i := range l.replicas {
		addr := rack.ReplicaAddr(i).Addr().String()
		var text string
		if l.router.Kind == router.FRR {
			text = l.router.Show(t, "show bgp ipv4 unicast neighbors "+addr+" routes")
			if strings.Contains(text, "Displayed") && strings.Contains(text, "10.244.") {
				up++
			}
			continue
		}
		text = l.router.Show(t, fmt.Sprintf("show route protocol neighbor%d", i))
		if strings.Contains(text, "10.244.") {
			up++
		}
	}
	if up != want {
		return fmt.Errorf("%d of %d replicas have announced their routes to it", up, want)
	}
	return nil
}

// settled waits until a client's requests are all answered, and none that was sent before them waits for its answer.
func (s *scene) settled(t *testing.T, sent *traffic) {
	t.Helper()
	poll.Until(t, "all of 50 requests in a row are answered", func(ctx context.Context) error {
		var last time.Time
		for _, one := range sent.flows(t, 50) {
			if one.Err != "" {
				return errors.New(one.Err)
			}
			last = one.At
		}
		if waiting := sent.waiting(last); waiting > 0 {
			return fmt.Errorf("%d requests wait for an answer", waiting)
		}
		return nil
	})
}

// retire takes the endpoint on a machine out of a Service's EndpointSlices.
func (l *fixture) retire(t *testing.T, service *corev1.Service, m *machine) {
	t.Helper()
	l.changeEndpoints(t, service, func(slice *discoveryv1.EndpointSlice) { slice.Endpoints = gone(slice.Endpoints, m.Name) })
}

// gone returns the endpoints that are not on a node.
func gone(endpoints []discoveryv1.Endpoint, node string) []discoveryv1.Endpoint {
	return slices.DeleteFunc(endpoints, func(e discoveryv1.Endpoint) bool { return *e.NodeName == node })
}

// silence makes a machine's kube-proxy unreachable for probes, or reachable again. Its rules work on.
func (l *fixture) silence(t *testing.T, m *machine, silent bool) {
	t.Helper()
	for _, command := range []string{"iptables", "ip6tables"} {
		change := "-D"
		if silent {
			change = "-I"
		}
		sandbox.Command(t, append(m.Host.Args(), command, change, "INPUT", "-p", "tcp", "--dport", "10256", "-j", "DROP")...)
	}
}

// cut takes a machine off the network.
func (l *fixture) cut(t *testing.T, m *machine) {
	t.Helper()
	sandbox.Command(t, "ip", "link", "set", "veth"+m.Name, "down")
}

// eventuallyGone waits until the node of a machine is gone.
func eventuallyGone(t *testing.T, l *fixture, m *machine) {
	t.Helper()
	poll.Until(t, "node "+m.Name+" is deleted", func(ctx context.Context) error {
		_, err := l.node(ctx, m)
		if err == nil {
			return errors.New("it is there")
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}
