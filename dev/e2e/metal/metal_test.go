// Package metal_test runs the provider metal as operators would: two replicas of the shipped daemon, a real control plane, real
// kubelets and kube-proxies, a real router with a client behind it, all in network namespaces.
package metal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/e2e/rack"
	"github.com/mooring-ccm/mooring/dev/e2e/router"
	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
)

func TestFRR(t *testing.T)  { scenario(t, router.FRR, "iptables") }
func TestBIRD(t *testing.T) { scenario(t, router.BIRD, "nftables") }

// scenario has stages, each of which rests on the ones before.
func scenario(t *testing.T, kind router.Kind, proxyMode string) {
	l := enter(t, kind, proxyMode)
	if l == nil {
		return
	}
	s := &scene{fixture: l}
	for _, stage := range []struct {
		name string
		play func(*testing.T)
	}{
		{"nodes are initialized from the inventory", s.initialized},
		{"kubelets are reached with verified certificates, and forged requests wait", s.certified},
		{"pods are routed to", s.podsRouted},
		{"a Service is reached over both families, spread over nodes", s.spread},
		{"a Service with policy Local sees its clients", s.local},
		{"the replica that leads is killed", s.leaderKilled},
		{"both replicas are replaced", s.upgraded},
		{"resources of MetalLB take the place of the cloud config, and it theirs", s.resourcesTakeTurns},
		{"another leader approves, and forged requests still wait", s.certifiedAnew},
		{"the policy of a Service is edited", s.edited},
		{"the only endpoint of a Service moves", s.moved},
		{"kube-proxy is replaced on every node", s.proxiesRestart},
		{"kube-proxy answers nowhere", s.proxiesRefuse},
		{"a replica sees no node", s.replicaBlind},
		{"the API server is away", s.cutOff},
		{"no replica has a session", s.sessionsEnd},
		{"the router restarts", s.routerRestarts},
		{"a node drains", s.drained},
		{"a management controller is another machine's", s.wrongController},
		{"a machine is switched off", s.switchedOff},
		{"kube-proxy dies", s.proxyDies},
		{"a machine leaves the inventory", s.scrapped},
	} {
		if !t.Run(stage.name, stage.play) {
			return
		}
	}
}

// scene is what the stages share.
type scene struct {
	*fixture
	web, door               *corev1.Service
	webTraffic, doorTraffic *traffic
	changes                 *router.Monitor // of all stages
	forged                  []forgery
}

func (s *scene) initialized(t *testing.T) {
	for _, m := range s.machines {
		must.NoError(t, os.WriteFile(s.power(m), []byte("on\n"), 0o600))
		s.awaitNode(t, m, "registers with the taint", func(node *corev1.Node) error {
			if !tainted(node, cloudproviderapi.TaintExternalCloudProvider) {
				return fmt.Errorf("taints %v", node.Spec.Taints)
			}
			return nil
		})
	}
	s.uncertified(t)
	s.writeConfig(t, s.machines...)
	for i := range replicaCount {
		s.startReplica(t, i)
	}
	for _, m := range s.machines {
		s.awaitNode(t, m, "is initialized", func(node *corev1.Node) error {
			want := fmt.Sprintf("metal://serial-%d", m.Index)
			zone := fmt.Sprintf("rack-%d", m.Index)
			if node.Spec.ProviderID != want || node.Labels[corev1.LabelTopologyZone] != zone || node.Labels[corev1.LabelInstanceTypeStable] != "r640" ||
				node.Labels[corev1.LabelTopologyRegion] != "basement" || tainted(node, cloudproviderapi.TaintExternalCloudProvider) {
				return fmt.Errorf("provider ID %q, labels %v, taints %v", node.Spec.ProviderID, node.Labels, node.Spec.Taints)
			}
			return nil
		})
	}
}

func (s *scene) podsRouted(t *testing.T) {
	s.allocate(t)
	s.awaitPodRoutes(t, s.machines...)
	for _, m := range s.machines {
		s.awaitNode(t, m, "says that its network is available", func(node *corev1.Node) error {
			for _, condition := range node.Status.Conditions {
				if condition.Type == corev1.NodeNetworkUnavailable && condition.Status == corev1.ConditionFalse {
					return nil
				}
			}
			return fmt.Errorf("conditions %v", node.Status.Conditions)
		})
	}
}

func (s *scene) spread(t *testing.T) {
	s.changes = s.router.Monitor(s.lifetime)
	s.web = s.expose(t, "web", corev1.ServiceExternalTrafficPolicyCluster, s.machines...)
	t.Logf("the router has it %s after its address", s.routed(t, s.web, s.machines...).Round(time.Millisecond))
	s.webTraffic = send(t, s.lifetime, s.outside, urls(s.web)...)
	s.settled(t, s.webTraffic)
	seen := map[string]int{}
	for _, one := range s.webTraffic.flows(t, 100) {
		seen[one.Server]++
	}
	if len(seen) != rack.Nodes || seen[""] > 0 {
		t.Errorf("requests were answered by %v, want all of %d", seen, rack.Nodes)
	}
}

func (s *scene) local(t *testing.T) {
	s.door = s.expose(t, "door", corev1.ServiceExternalTrafficPolicyLocal, s.machines[0], s.machines[1])
	s.routed(t, s.door, s.machines[0], s.machines[1])
	s.doorTraffic = send(t, s.lifetime, s.outside, urls(s.door)...)
	s.settled(t, s.doorTraffic)
	clients := map[string]int{}
	for _, one := range s.doorTraffic.flows(t, 100) {
		clients[one.Client]++
	}
	if len(clients) != 2 || clients[rack.Client4.Addr().String()] == 0 || clients[rack.Client6.Addr().String()] == 0 {
		t.Errorf("servers saw %v, want the client's own two addresses", clients)
	}
}

// leaderKilled ends the leader as a crash does. The other replica announces the same.
func (s *scene) leaderKilled(t *testing.T) {
	leader := s.leader(t)
	before, monitor, begin := s.router.FIB(t), s.router.Monitor(t), time.Now()
	leader.Kill()
	s.startReplica(t, leader.index)
	s.awaitSessions(t)
	s.unharmed(t, begin)
	s.requireNoEvent(t, monitor, before)
}

// upgraded replaces the replicas as a rolling update does, which goes by /readyz and nothing else: as one without a surge, where a
// replica ends before its successor starts, and then as one with a surge, where it ends when its successor is ready.
func (s *scene) upgraded(t *testing.T) {
	before, monitor, begin := s.router.FIB(t), s.router.Monitor(t), time.Now()
	for i := range replicaCount {
		s.replicas[i].Stop()
		s.awaitReady(t, s.startReplica(t, i))
	}
	for i := range replicaCount {
		s.awaitReady(t, s.startReplica(t, (i+replicaCount)%(replicaCount+1)))
		s.replicas[i].Stop()
	}
	s.awaitReady(t, s.startReplica(t, replicaCount-1))
	s.replicas[replicaCount].Stop()
	s.replicas = s.replicas[:replicaCount]
	s.unharmed(t, begin)
	s.requireNoEvent(t, monitor, before)
}

// cutOff takes the API server away for longer than a lease lasts. The replica that led may no longer lead; both go on announcing,
// and probing: a node that fails meanwhile is taken out, and comes back.
func (s *scene) cutOff(t *testing.T) {
	leader := s.leader(t)
	s.awaitStarted(t) // one that still starts cannot do without the API server, and ends
	before, monitor, begin := s.router.FIB(t), s.router.Monitor(t), time.Now()
	must.NoError(t, s.cluster.StopAPIServer(t.Context()))
	poll.Until(t, "the leader goes on without its lease", func(context.Context) error {
		if !strings.Contains(leader.Log(), "Lost the lease and stopped the controllers") {
			return errors.New("it has not lost it")
		}
		return leader.Runs()
	})
	s.unharmed(t, begin)
	s.requireNoEvent(t, monitor, before)

	s.silence(t, s.machines[2], true)
	s.routed(t, s.web, s.machines[0], s.machines[1])
	s.silence(t, s.machines[2], false)
	s.routed(t, s.web, s.machines...)
	s.unharmed(t, begin)

	must.NoError(t, s.cluster.StartAPIServer(t.Context()))
	poll.Until(t, "the replica that had led ends, to begin anew", func(context.Context) error {
		if leader.Runs() == nil {
			return errors.New("it runs")
		}
		return nil
	})
	s.startReplica(t, leader.index)
	s.awaitSessions(t)
	s.unharmed(t, begin)
}

// announcedReason returns the reason of the condition of a Service that says whether it is announced.
const announcedReason = `kubectl get service web --output jsonpath='{.status.conditions[?(@.type=="metal.mooring.dev/Announced")].reason}'`

// sessionsEnd keeps both replicas from the router. Services do not go on saying that they are announced.
func (s *scene) sessionsEnd(t *testing.T) {
	reject := func(change string) {
		for _, r := range s.replicas {
			sandbox.Command(t, append(r.host.Args(), "iptables", change, "OUTPUT", "-p", "tcp", "--dport", "179", "-j", "REJECT", "--reject-with", "tcp-reset")...)
		}
	}
	reject("-I")
	s.routed(t, s.web)
	s.awaitReason(t, "NoSession")
	reject("-D")
	s.awaitSessions(t)
	s.routed(t, s.web, s.machines...)
	s.settled(t, s.webTraffic)
	s.awaitReason(t, "Announced")
}

func (s *scene) awaitReason(t *testing.T, reason string) {
	t.Helper()
	poll.Until(t, "the Service's condition has the reason "+reason, func(context.Context) error {
		if said := s.kubectl(t, announcedReason); said != reason {
			return fmt.Errorf("it is %q", said)
		}
		return nil
	})
}

func (s *scene) routerRestarts(t *testing.T) {
	s.router.Restart(t)
	s.awaitSessions(t)
	s.routed(t, s.web, s.machines...)
	s.routed(t, s.door, s.machines[0], s.machines[1])
	s.awaitPodRoutes(t, s.machines...)
	s.settled(t, s.webTraffic)
}

func (s *scene) drained(t *testing.T) {
	begin := time.Now()
	s.kubectl(t, "kubectl annotate node n1 metal.mooring.dev/drain=")
	s.routed(t, s.web, s.machines[1], s.machines[2])
	s.routed(t, s.door, s.machines[1])
	s.unharmed(t, begin)
	s.kubectl(t, "kubectl annotate node n1 metal.mooring.dev/drain-")
	s.routed(t, s.web, s.machines...)
	s.routed(t, s.door, s.machines[0], s.machines[1])
	s.unharmed(t, begin)
	const why = `kubectl get service web --output jsonpath='{.status.conditions[?(@.type=="metal.mooring.dev/Announced")].message}'`
	poll.Until(t, "the Service says so", func(context.Context) error {
		if said := s.kubectl(t, why); !strings.Contains(said, "is announced with 3 next hops") {
			return fmt.Errorf("it says %q", said)
		}
		return nil
	})
}

// wrongController has the management controller of a machine say that it is off, and that it is another machine's. That is not believed: the
// node keeps its place, and an event says what is wrong.
func (s *scene) wrongController(t *testing.T) {
	node, begin := s.machines[2], time.Now()
	must.NoError(t, os.WriteFile(s.power(node), []byte("off "+s.machines[0].systemUUID()+"\n"), 0o600))
	poll.Until(t, "an event names the wrong controller", func(ctx context.Context) error {
		events, err := s.client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "reason=WrongBMC,involvedObject.name=" + node.Name})
		if err == nil && len(events.Items) == 0 {
			err = errors.New("there is none")
		}
		return err
	})
	current, err := s.node(t.Context(), node)
	must.NoError(t, err)
	if tainted(current, cloudproviderapi.TaintNodeShutdown) || tainted(current, corev1.TaintNodeOutOfService) {
		t.Errorf("the node of a machine whose controller is another one's has the taints %v", current.Spec.Taints)
	}
	must.NoError(t, os.WriteFile(s.power(node), []byte("on\n"), 0o600))
	s.unharmed(t, begin)
}

// silence is how long requests may be sent to a node that died without a word.
const silence = 3 * time.Second

// switchedOff ends a machine without a word: its link is gone, and its management controller says off. What the router sends there
// is lost until the node is taken out. With policy Cluster, other nodes go on sending to its pods until kube-controller-manager
// takes them out of the EndpointSlices; the test, which has made those, does that in its place.
func (s *scene) switchedOff(t *testing.T) {
	dead := s.machines[0]
	s.probeQuickly(t)
	begin := time.Now()
	must.NoError(t, os.WriteFile(s.power(dead), []byte("off\n"), 0o600))
	s.cut(t, dead)
	took := s.routed(t, s.door, s.machines[1])
	s.routed(t, s.web, s.machines[1], s.machines[2])
	if took > silence {
		t.Errorf("the dead node was a next hop for %s, want at most %s", took, silence)
	}
	out := begin.Add(took)
	s.settled(t, s.doorTraffic)
	failures, sent := s.doorTraffic.lost(begin)
	t.Logf("taken out after %s; of %d requests with policy Local %d were lost, within %s",
		took.Round(time.Millisecond), sent, len(failures), window(failures).Round(time.Millisecond))
	// One that was sent before may be sent again over the other node. On a busy machine one that was sent later may be late, too.
	if failures, _ = s.doorTraffic.outcome(t, out); len(failures) > 0 {
		t.Errorf("after the dead node was no longer a next hop, %d requests with policy Local failed: %v", len(failures), failures)
	}
	s.retire(t, s.web, dead)
	s.retire(t, s.door, dead)
	s.settled(t, s.webTraffic)
	failures, sent = s.webTraffic.lost(begin)
	t.Logf("of %d requests with policy Cluster %d were lost, within %s", sent, len(failures), window(failures).Round(time.Millisecond))
	s.awaitNode(t, dead, "has the shutdown taint", func(node *corev1.Node) error {
		if !tainted(node, cloudproviderapi.TaintNodeShutdown) {
			return fmt.Errorf("taints %v", node.Spec.Taints)
		}
		return nil
	})
}

// probeQuickly has nodes probed as by default from now on, by another config that the replicas take over while they run.
func (s *scene) probeQuickly(t *testing.T) {
	s.quick = true
	s.writeConfig(t, s.machines...)
	poll.Until(t, "both replicas have the other config", func(context.Context) error {
		for _, r := range s.replicas {
			if !strings.Contains(r.Log(), "The new cloud config is in force") {
				return fmt.Errorf("%s has not", r.Name)
			}
		}
		return nil
	})
}

// proxyDies: its rules go on working, so Services with other nodes lose nothing.
func (s *scene) proxyDies(t *testing.T) {
	begin := time.Now()
	s.machines[1].proxy.Kill()
	t.Logf("taken out after %s", s.routed(t, s.web, s.machines[2]).Round(time.Millisecond))
	s.answered(t, s.web, s.webTraffic, begin)
}

func (s *scene) scrapped(t *testing.T) {
	gone := s.machines[0]
	s.writeConfig(t, s.machines[1], s.machines[2])
	eventuallyGone(t, s.fixture, gone)
	s.awaitPodRoutes(t, s.machines[1], s.machines[2])
}

// requireNoEvent fails if the router's kernel has changed a route to a Service or to pods. When one of several sessions that announced
// it ends, both routers write a route of IPv6 anew as it is: BIRD over the old one, FRR after it has taken that out.
func (s *scene) requireNoEvent(t *testing.T, monitor *router.Monitor, before router.FIB) {
	t.Helper()
	if after := s.router.FIB(t); !after.Equal(before) {
		t.Errorf("the router had %v and has %v", before, after)
	}
	var texts []string
	for _, prefix := range slices.Concat(hosts(s.web), hosts(s.door)) {
		texts = append(texts, prefix.Addr().String())
	}
	var changes []string
	for _, event := range monitor.Events(t, append(texts, "10.244.", "fd00:244:")...) {
		again := strings.Contains(event, ":") && !strings.HasPrefix(event, "Deleted")
		if last := len(changes) - 1; again && last >= 0 && changes[last] == "Deleted "+event {
			changes = changes[:last]
		}
		if !again {
			changes = append(changes, event)
		}
	}
	if len(changes) > 0 {
		t.Errorf("the router's routes have changed:\n%s", strings.Join(changes, "\n"))
	}
}

// unharmed fails if a request to any Service since begin was not answered.
func (s *scene) unharmed(t *testing.T, begin time.Time) {
	t.Helper()
	s.answered(t, s.web, s.webTraffic, begin)
	s.answered(t, s.door, s.doorTraffic, begin)
}

const (
	// rewritten is how many requests over IPv6 may find no route when FRR writes its routes anew, see requireNoEvent.
	rewritten = 5
	// underway is how many requests to a Service may be lost when its next hops change, besides the requests under way. The router's kernel then
	// sends the rest of some connections to another node, which cuts them. The kernel reports the change a little late.
	underway = 3
)

// answered fails if requests to a Service since begin were not answered. It tolerates the losses that a change of the router may cause.
func (s *scene) answered(t *testing.T, service *corev1.Service, sent *traffic, begin time.Time) {
	t.Helper()
	var addresses []string
	for _, prefix := range hosts(service) {
		addresses = append(addresses, prefix.Addr().String()+" ")
	}
	failures, total := sent.outcome(t, begin)
	missed := len(failures)
	failures = slices.DeleteFunc(failures, func(one answer) bool {
		return s.router.Kind == router.FRR && strings.Contains(one.Err, "]:80: connect: network is unreachable")
	})
	missed -= len(failures)
	cut := sent.underWay(s.changes.Changes(t, begin, addresses...))
	if len(failures) > underway+cut || missed > rewritten {
		t.Errorf("of %d requests to %s %d failed, %d of them while FRR wrote its routes anew, and %d were under way when its next hops changed: %v",
			total, service.Name, len(failures)+missed, missed, cut, failures)
	} else {
		t.Logf("of %d requests to %s %d were lost, %d were under way when its next hops changed, and %d came while FRR wrote its routes anew",
			total, service.Name, len(failures), cut, missed)
	}
}

func tainted(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == key })
}
