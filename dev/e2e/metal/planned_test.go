package metal_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/e2e/worker"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// edited changes the policy of a Service and back, before the manager has probed its health-check node ports. No node leaves because of that.
func (s *scene) edited(t *testing.T) {
	before, monitor, begin := s.router.FIB(t), s.router.Monitor(t), time.Now()
	for _, policy := range []corev1.ServiceExternalTrafficPolicy{corev1.ServiceExternalTrafficPolicyLocal, corev1.ServiceExternalTrafficPolicyCluster} {
		s.kubectl(t, fmt.Sprintf(`kubectl patch service web --patch '{"spec": {"externalTrafficPolicy": %q}}'`, policy))
		s.webTraffic.flows(t, 200)
	}
	// Each kube-proxy writes its rules anew for that, which may cut a connection that is being opened. A withdrawal costs a tenth.
	for _, sent := range []*traffic{s.webTraffic, s.doorTraffic} {
		if failures, total := sent.outcome(t, begin); len(failures)*50 > total {
			t.Errorf("of %d requests %d failed: %v", total, len(failures), failures)
		}
	}
	s.requireNoEvent(t, monitor, before)
}

// moved has the only endpoint of a Service with policy Local appear on another node while the one before ends. The address is not
// withdrawn in between, although no port of the new node has been probed.
func (s *scene) moved(t *testing.T) {
	from, to := s.machines[0], s.machines[1]
	service := s.expose(t, "single", corev1.ServiceExternalTrafficPolicyLocal, from)
	s.routed(t, service, from)
	sent := send(t, t, s.outside, urls(service)...)
	s.settled(t, sent)
	monitor := s.router.Monitor(t)
	s.changeEndpoints(t, service, func(slice *discoveryv1.EndpointSlice) {
		old := &slice.Endpoints[0]
		replacement := *old.DeepCopy()
		replacement.NodeName, replacement.Addresses = &to.Name, []string{to.pod4().Addr().String()}
		if slice.AddressType == discoveryv1.AddressTypeIPv6 {
			replacement.Addresses = []string{to.pod6().Addr().String()}
		}
		old.Conditions = discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)}
		slice.Endpoints = append(slice.Endpoints, replacement)
	})
	s.routed(t, service, to)
	s.changeEndpoints(t, service, func(slice *discoveryv1.EndpointSlice) { slice.Endpoints = gone(slice.Endpoints, from.Name) })
	s.settled(t, sent)
	for _, prefix := range hosts(service) {
		// Of IPv6, both routers take a route out and write it again when its next hop changes.
		for _, event := range monitor.Events(t, prefix.Addr().String()+" ") {
			if prefix.Addr().Is4() && strings.HasPrefix(event, "Deleted") {
				t.Errorf("the address was withdrawn while its endpoint moved: %s", event)
			}
		}
	}
	must.NoError(t, s.client.CoreV1().Services("default").Delete(t.Context(), service.Name, metav1.DeleteOptions{}))
	s.routed(t, service)
}

// proxiesRestart replaces kube-proxy on every node, one after the other, as a rolling update of its DaemonSet does. Its rules go on
// forwarding meanwhile, so no node leaves: every flow would be moved twice.
func (s *scene) proxiesRestart(t *testing.T) {
	before, monitor := s.router.FIB(t), s.router.Monitor(t)
	for _, m := range s.machines {
		m.proxy.Kill()
		s.webTraffic.flows(t, 100) // more than two probes fail
		m.proxy = worker.StartKubeProxy(s.lifetime, s.cluster, m.Host, m.Name, s.proxyMode, clusterCIDR, filepath.Join(s.dir, m.Name))
		s.awaitProxy(t, m)
	}
	s.settled(t, s.webTraffic)
	s.settled(t, s.doorTraffic)
	s.requireNoEvent(t, monitor, before)
}

// proxiesRefuse closes port 10256 on every node, as where another program does what kube-proxy did, and replaces both replicas: the
// new ones have never had an answer there, but one on the health-check node ports of the Service with policy Local.
func (s *scene) proxiesRefuse(t *testing.T) {
	before, monitor, begin := s.router.FIB(t), s.router.Monitor(t), time.Now()
	refuse := func(change string) {
		for _, m := range s.machines {
			for _, command := range []string{"iptables", "ip6tables"} {
				sandbox.Command(t, append(m.Host.Args(), command, change, "INPUT", "-p", "tcp", "--dport", "10256", "-j", "REJECT", "--reject-with", "tcp-reset")...)
			}
		}
	}
	refuse("-I")
	for i := range replicaCount {
		s.replicas[i].Stop()
		s.awaitReady(t, s.startReplica(t, i))
	}
	s.doorTraffic.flows(t, 200)
	s.unharmed(t, begin)
	refuse("-D")
	poll.Until(t, "both replicas know that kube-proxies answer again", func(context.Context) error {
		for _, r := range s.replicas {
			if !strings.Contains(r.Log(), "Kube-proxies answer at their health ports") {
				return fmt.Errorf("%s does not", r.Name)
			}
		}
		return nil
	})
	s.requireNoEvent(t, monitor, before)
}

// replicaBlind keeps one replica from every node, and then a node stops answering. The other replica sees that, and the router goes by what
// it announces, although the blind one still announces the node.
func (s *scene) replicaBlind(t *testing.T) {
	begin, blind := time.Now(), s.replicas[0]
	cut := func(change string) {
		for command, nodes := range map[string]string{"iptables": "10.78.1.0/24", "ip6tables": "fd00:78::1:0/112"} {
			sandbox.Command(t, append(blind.host.Args(), command, change, "OUTPUT", "-d", nodes, "-j", "DROP")...)
		}
	}
	cut("-I")
	poll.Until(t, blind.Name+" knows that it sees nothing", func(context.Context) error {
		return poll.Holds(strings.Contains(blind.Log(), "No node answers a probe"))
	})
	s.silence(t, s.machines[2], true)
	s.routed(t, s.web, s.machines[0], s.machines[1])
	s.unharmed(t, begin)
	s.silence(t, s.machines[2], false)
	cut("-D")
	poll.Until(t, blind.Name+" sees again", func(context.Context) error {
		return poll.Holds(strings.Contains(blind.Log(), "Probes are answered again"))
	})
	s.routed(t, s.web, s.machines...)
	s.unharmed(t, begin)
}

// proxyPatience is how long kube-proxy may take to write its rules. For the first half minute it waits for its node to have addresses, and
// does nothing; what it does then competes with the control planes of other racks.
const proxyPatience = 30*time.Second + 3*poll.Deadline

// awaitProxy waits until kube-proxy of a machine has written its rules. What it begins with may cut a connection that is being opened.
func (l *fixture) awaitProxy(t *testing.T, m *machine) {
	t.Helper()
	poll.Within(t, proxyPatience, "kube-proxy of "+m.Name+" has written its rules", func(ctx context.Context) error {
		return l.curl(ctx, m.Host, "http://127.0.0.1:10256/livez")
	})
}

// changeEndpoints changes both EndpointSlices of a Service.
func (l *fixture) changeEndpoints(t *testing.T, service *corev1.Service, change func(*discoveryv1.EndpointSlice)) {
	t.Helper()
	all := l.client.DiscoveryV1().EndpointSlices("default")
	list, err := all.List(t.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service.Name})
	must.NoError(t, err)
	if len(list.Items) != 2 {
		must.NoError(t, errors.New("there are not two EndpointSlices"))
	}
	for i := range list.Items {
		change(&list.Items[i])
		_, err := all.Update(t.Context(), &list.Items[i], metav1.UpdateOptions{})
		must.NoError(t, err)
	}
}
