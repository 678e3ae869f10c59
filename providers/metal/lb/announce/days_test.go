package announce

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/ipam"
)

// daysSeed replays a schedule: go test ./providers/metal/lb/announce -run ForDays -seed 7.
var daysSeed = flag.Uint64("seed", 1, "seed of the schedule of TestRoutersForDays")

const (
	rackNodes, rackServices = 6, 5
	// followed is how long routers take to follow a change: the probes, and what announcers wait for.
	followed = detection + policyWait + time.Second
	// changesPerEvent bounds how often a replica changes what it announces, for each thing that happens: a node that dies changes
	// the next hops once, a Service whose policy changes twice, and a replica that sees again may do so for each node.
	changesPerEvent = 3
)

// rack is a cluster with nodes, Services, replicas and routers, and what happened to it.
type rack struct {
	t        *testing.T
	random   *rand.Rand
	client   *fake.Clientset
	replicas []*speaker
	routers  []router
	dead     map[string]bool
	services map[string]*corev1.Service // with their addresses
	serves   map[string]map[string]bool // by Service, the nodes with endpoints
	excluded map[string]bool
	created  int
	happened int
	event    string // the last one

	leader    *ipam.Allocator
	endLeader func()

	blind int // the replica that is, or -1
}

func rackNode(i int) string { return fmt.Sprintf("n%d", i) }

func rackAddress(node string) netip.Addr {
	return netip.MustParseAddr("10.0.0." + node[1:])
}

// lead replaces the leader, whose allocator reads all Services anew.
func (r *rack) lead() {
	if r.endLeader != nil {
		r.endLeader()
	}
	factory := informers.NewSharedInformerFactory(r.client, 0)
	services := factory.Core().V1().Services().Informer()
	var err error
	r.leader, err = ipam.New([]config.Pool{{Name: "public", Addresses: []string{"192.0.2.1-192.0.2.7"}}}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.leader.Lead(ipam.Sources{Client: r.client, Services: services, Recorder: record.NewFakeRecorder(100_000)}); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	var running sync.WaitGroup
	factory.Start(ctx.Done())
	running.Go(func() { _ = r.leader.Run(ctx) })
	r.endLeader = func() {
		cancel()
		running.Wait()
		factory.Shutdown()
	}
	synctest.Wait()
}

// create makes a Service, lets the leader give it an address, and endpoints.
func (r *rack) create(name string) {
	r.created++
	service := serviceObject(name, "192.0.2.1")
	service.UID = types.UID(fmt.Sprintf("%s-%d", name, r.created))
	service.CreationTimestamp = metav1.Now()
	service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	service.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}
	service.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	if _, err := r.client.CoreV1().Services("default").Create(r.t.Context(), service, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	r.ensure(service)
	r.services[name] = service
	r.serves[name] = map[string]bool{}
	r.spread(name)
}

// ensure has the leader say which address a Service has, which must not change.
func (r *rack) ensure(service *corev1.Service) {
	status, err := r.leader.EnsureLoadBalancer(r.t.Context(), "", service, nil)
	if err != nil {
		r.t.Fatalf("seed %d: %s gets no address: %v", *daysSeed, service.Name, err)
	}
	if had := service.Status.LoadBalancer.Ingress; len(had) > 0 && had[0].IP != status.Ingress[0].IP {
		r.t.Errorf("the address of %s changed from %s to %s", service.UID, had[0].IP, status.Ingress[0].IP)
	}
	for name, other := range r.services {
		if name != service.Name && other.Status.LoadBalancer.Ingress[0].IP == status.Ingress[0].IP {
			r.t.Errorf("%s and %s have the address %s", name, service.Name, status.Ingress[0].IP)
		}
	}
	service.Status.LoadBalancer = *status
	r.write(service)
}

func (r *rack) write(service *corev1.Service) {
	if _, err := r.client.CoreV1().Services("default").Update(r.t.Context(), service, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// spread moves the endpoints of a Service, or takes them all away.
func (r *rack) spread(name string) {
	var nodes []string
	for i := 1; i <= rackNodes; i++ {
		if r.random.IntN(2) == 0 {
			nodes = append(nodes, rackNode(i))
		}
	}
	r.serves[name] = map[string]bool{}
	for _, node := range nodes {
		r.serves[name][node] = true
	}
	endpoints, slice := r.client.DiscoveryV1().EndpointSlices("default"), sliceObject(name, nodes...)
	_, err := endpoints.Update(r.t.Context(), slice, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = endpoints.Create(r.t.Context(), slice, metav1.CreateOptions{})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// remove ends a Service.
func (r *rack) remove(name string) {
	service := r.services[name]
	if err := r.leader.EnsureLoadBalancerDeleted(r.t.Context(), "", service); err != nil {
		r.t.Fatal(err)
	}
	ctx := context.Background()
	if err := r.client.CoreV1().Services("default").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
	if err := r.client.DiscoveryV1().EndpointSlices("default").Delete(ctx, name+"-1", metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
	delete(r.services, name)
	delete(r.serves, name)
	synctest.Wait()
}

// turn has a node die or live again, which the replicas that see find out later.
func (r *rack) turn(node string) {
	r.dead[node] = !r.dead[node]
	dead := r.dead[node]
	for _, replica := range r.replicas {
		time.AfterFunc(detection, func() { replica.prober.find(node, dead) })
	}
}

// look has a replica go blind, or see again what has happened meanwhile. The other one sees.
func (r *rack) look(replica int) {
	if r.blind >= 0 {
		r.replicas[r.blind].prober.see(false, r.dead)
		r.blind = -1
		return
	}
	r.blind = replica
	r.replicas[replica].prober.see(true, r.dead)
}

// exclude has a node take part in load balancing no more, or again.
func (r *rack) exclude(node string) {
	r.excluded[node] = !r.excluded[node]
	object := nodeObject(node, rackAddress(node).String())
	if r.excluded[node] {
		object.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""}
	}
	r.update(object)
}

func (r *rack) update(node *corev1.Node) {
	if _, err := r.client.CoreV1().Nodes().Update(r.t.Context(), node, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// happen has one thing happen, by chance. Never to both replicas at once, and never to more than half of the nodes.
func (r *rack) happen() (killed bool) {
	r.happened++
	node, name := rackNode(1+r.random.IntN(rackNodes)), fmt.Sprintf("s%d", r.random.IntN(rackServices))
	replica := r.random.IntN(len(r.replicas))
	kind := r.random.IntN(10)
	r.event = fmt.Sprintf("%d of %s, %s and replica %d", kind, node, name, replica)
	switch service := r.services[name]; kind {
	case 0, 1:
		if r.dead[node] || countTrue(r.dead) < rackNodes/2 {
			r.turn(node)
		}
	case 2:
		if r.excluded[node] || countTrue(r.excluded) < rackNodes/3 {
			r.exclude(node)
		}
	case 3:
		if service == nil {
			r.create(name)
		} else {
			r.remove(name)
		}
	case 4:
		if service != nil {
			r.spread(name)
		}
	case 5:
		if service != nil && service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
			service.Spec.ExternalTrafficPolicy, service.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyCluster, 0
			r.write(service)
		} else if service != nil {
			service.Spec.ExternalTrafficPolicy, service.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, checkPort
			r.write(service)
		}
	case 6: // a session ends, and another returns
		r.routers[0].down = map[int]bool{replica: r.random.IntN(2) == 0}
		r.routers[1].down = map[int]bool{1 - replica: r.random.IntN(2) == 0}
	case 7: // a replica is killed and replaced; its sessions end with it
		if r.blind == replica {
			r.blind = -1
		}
		r.replicas[replica].end()
		r.replicas[replica] = startSpeaker(r.t, r.client, r.dead)
		r.lead()
		for _, service := range r.services {
			r.ensure(service)
		}
		return true
	case 8:
		r.look(replica)
	case 9:
		r.replicas[replica].Reconfigure(config.Announcement{}.WithDefaults(), nil, func(netip.Addr) string { return "public" })
	}
	return false
}

func countTrue(of map[string]bool) (count int) {
	for _, is := range of {
		if is {
			count++
		}
	}
	return count
}

// table is a host route's next hops, by destination.
type table map[netip.Prefix][]netip.Addr

// model returns what routers shall have: to each address the nodes that live and take part, and with policy Local have an endpoint.
func (r *rack) model() table {
	want := table{}
	for name, service := range r.services {
		var hops []netip.Addr
		local := service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
		for i := 1; i <= rackNodes; i++ {
			node := rackNode(i)
			if !r.dead[node] && !r.excluded[node] && len(r.serves[name]) > 0 && (!local || r.serves[name][node]) {
				hops = append(hops, rackAddress(node))
			}
		}
		if len(hops) > 0 {
			addr := netip.MustParseAddr(service.Status.LoadBalancer.Ingress[0].IP)
			want[netip.PrefixFrom(addr, addr.BitLen())] = hops
		}
	}
	return want
}

// judged reports whether a router has a session with a replica that sees: another one cannot know better.
func (r *rack) judged(router router) bool { return r.blind < 0 || !router.down[1-r.blind] }

// check compares the tables of all routers with the model, once everything has been followed.
func (r *rack) check(want table) {
	r.t.Helper()
	for i, router := range r.routers {
		if !r.judged(router) {
			continue
		}
		has := router.table(r.replicas)
		for prefix, hops := range want {
			// A blind replica goes on to announce what it knew, also by nodes of which the other one says otherwise.
			if !slices.Equal(has[prefix], hops) {
				r.fail("router %d has %s by %v, want %v", i, prefix, has[prefix], hops)
			}
		}
		for prefix, hops := range has {
			if len(want[prefix]) == 0 && r.blind < 0 {
				r.fail("router %d has %s by %v, want no such route", i, prefix, hops)
			}
		}
	}
}

// follow watches the routers while they follow an event. At no moment do they lack all next hops that were right before and are still. Judged
// says which routers had what was right before.
func (r *rack) follow(before, after table, judged []bool, killed bool) {
	r.t.Helper()
	for began := time.Now(); time.Since(began) < followed; time.Sleep(250 * time.Millisecond) {
		for i, router := range r.routers {
			if !judged[i] || !r.judged(router) || killed && len(router.down) > 0 { // the killed replica may have had the only session
				continue
			}
			has := router.table(r.replicas)
			for prefix, hops := range before {
				stays := func(hop netip.Addr) bool { return slices.Contains(after[prefix], hop) }
				if slices.ContainsFunc(hops, stays) && !slices.ContainsFunc(has[prefix], stays) {
					r.fail("%s after the event, router %d has %s by %v, which lacks all of %v that work before and after", time.Since(began), i,
						prefix, has[prefix], hops)
				}
			}
		}
	}
}

func (r *rack) fail(format string, args ...any) {
	r.t.Helper()
	r.t.Errorf("seed %d, event %d (%s): "+format, append([]any{*daysSeed, r.happened, r.event}, args...)...)
}

// For days things happen to a rack with two replicas and two routers, by chance: nodes die, return, are excluded; Services come, go, move
// and change policy; sessions end and return; replicas are killed and replaced, and so is the leader, which gives addresses; the config is
// read again. No two Services have one address, and no address changes. Soon after each event the table of each router equals the table of
// a simple model: it has the nodes that live and take part, and no foreign node. Announcements change no more often than things happen.
func TestRoutersForDays(t *testing.T) {
	t.Logf("-seed %d", *daysSeed)
	synctest.Test(t, func(t *testing.T) {
		r := &rack{
			t: t, random: rand.New(rand.NewPCG(*daysSeed, 0)), client: fake.NewClientset(), dead: map[string]bool{}, excluded: map[string]bool{},
			services: map[string]*corev1.Service{}, serves: map[string]map[string]bool{}, routers: make([]router, 2), blind: -1,
		}
		for i := 1; i <= rackNodes; i++ {
			_ = r.client.Tracker().Add(nodeObject(rackNode(i), rackAddress(rackNode(i)).String()))
		}
		foreign := nodeObject("f1", "10.0.1.1")
		foreign.Labels = map[string]string{foreignLabel: "yes"}
		_ = r.client.Tracker().Add(foreign)
		r.lead()
		for range 2 {
			r.replicas = append(r.replicas, startSpeaker(t, r.client, r.dead))
		}
		for began := time.Now(); time.Since(began) < 3*24*time.Hour; {
			time.Sleep(time.Duration(60+r.random.IntN(1200)) * time.Second)
			replica, before := r.replicas[0], r.model()
			_, changes := replica.announced()
			judged := []bool{r.judged(r.routers[0]), r.judged(r.routers[1])}
			killed := r.happen()
			r.follow(before, r.model(), judged, killed)
			r.check(r.model())
			if _, now := replica.announced(); now-changes > changesPerEvent {
				r.fail("what a replica announces changed %d times", now-changes)
			}
		}
		for _, replica := range r.replicas {
			replica.end()
		}
		r.endLeader()
		t.Logf("%d events", r.happened)
	})
}
