package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mooring-ccm/mooring/internal/leaserecord"
	"github.com/mooring-ccm/mooring/provider"
)

// leaders are managers that lead one after the other, in one cluster with three Services and two nodes.
type leaders struct {
	*engine
	leases      *fake.Clientset
	origin      string
	withoutList bool
}

// begin starts a leader, which sees all Services.
func (l *leaders) begin(t *testing.T) {
	t.Helper()
	before := l.engine
	l.engine = startEngine(t, 1, func(e *engine) {
		if before != nil {
			e.cluster, e.cloud = before.cluster, before.cloud
		}
		e.record = &Record{
			Record: leaserecord.Record{
				Leases: l.leases.CoordinationV1(), Namespace: "kube-system", Name: "load-balancers", Annotation: AnnotationRecord,
			},
			Origin: func(context.Context) (string, error) { return l.origin, nil }, WithoutList: l.withoutList,
		}
		if before == nil && !l.withoutList {
			e.cloud.list = e.cloud.listed
		}
	})
	if before == nil {
		return
	}
	for i := range 3 {
		l.watcher.changed(l.queue, nil, l.service(keyOf(serviceWith(named(fmt.Sprint("s", i))))))
	}
	time.Sleep(2 * time.Minute)
}

// listed lists the load balancers.
func (m *memoryCloud) listed(context.Context, string) (all []provider.LoadBalancer, err error) {
	if err := m.call("list"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid, targets := range m.balancer {
		balancer := provider.LoadBalancer{ServiceUID: uid, Status: *memoryStatus(), Targets: []types.NodeName{}}
		for name := range targets {
			balancer.Targets = append(balancer.Targets, types.NodeName(name))
		}
		all = append(all, balancer)
	}
	return all, nil
}

// A new leader leaves alone what is right by the record and, where the plugin lists, by the list. All else is ensured, as by the reference.
func TestANewLeaderEnsuresWhatHasChanged(t *testing.T) {
	key := keyOf(serviceWith(named("s0")))
	annotate := func(key, value string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Annotations = map[string]string{key: value} }
	}
	lease := func(t *testing.T, l *leaders, edit func(map[string]string)) {
		t.Helper()
		leases := l.leases.CoordinationV1().Leases("kube-system")
		record, err := leases.Get(t.Context(), "load-balancers", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		edit(record.Annotations)
		if _, err := leases.Update(t.Context(), record, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		withoutList bool // by the flag
		between     func(*testing.T, *leaders)
		ensures     int
	}{
		"nothing has changed":          {false, nil, 0},
		"nothing has changed, no list": {true, nil, 0},
		"an annotation":                {false, func(_ *testing.T, l *leaders) { l.edit(key, annotate("lb", "other")) }, 1},
		"an annotation, no list":       {true, func(_ *testing.T, l *leaders) { l.edit(key, annotate("lb", "other")) }, 1},
		"an annotation of ours":        {true, func(_ *testing.T, l *leaders) { l.edit(key, annotate("mooring.dev/note", "x")) }, 0},
		"a label": {true, func(_ *testing.T, l *leaders) {
			l.edit(key, func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} })
		}, 0},
		"gone, as a list shows":         {false, func(_ *testing.T, l *leaders) { delete(l.cloud.balancer, "uid-s0") }, 1},
		"lost targets, as a list shows": {false, func(_ *testing.T, l *leaders) { l.cloud.balancer["uid-s0"] = map[string]string{} }, 1},
		"another program":               {true, func(_ *testing.T, l *leaders) { l.origin = "v2" }, 3},
		"a program that is not known":   {true, func(_ *testing.T, l *leaders) { l.origin = "" }, 3},
		"nodes":                         {true, func(_ *testing.T, l *leaders) { l.changeNode("c", nodeWith("c")) }, 3},
		"no record":                     {true, func(t *testing.T, l *leaders) { lease(t, l, func(a map[string]string) { clear(a) }) }, 3},
		"a record that is not readable": {false, func(t *testing.T, l *leaders) {
			lease(t, l, func(a map[string]string) { a[AnnotationRecord] = `{"services": []}` })
		}, 3},
		"a list that fails": {false, func(_ *testing.T, l *leaders) {
			l.cloud.setChance(func(operation string) (time.Duration, error) {
				return 0, map[string]error{"list": errors.New("cannot list")}[operation]
			})
		}, 3},
		"a list that hangs": {false, func(_ *testing.T, l *leaders) {
			l.cloud.setChance(func(operation string) (time.Duration, error) {
				return map[string]time.Duration{"list": time.Hour}[operation], nil
			})
		}, 3},
		"an address": {true, func(_ *testing.T, l *leaders) {
			l.edit(key, func(s *corev1.Service) { s.Status = corev1.ServiceStatus{} })
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := startLeaders(t, test.withoutList)
				time.Sleep(time.Minute)
				l.stop()
				if test.between != nil {
					test.between(t, l)
				}
				before := l.cloud.count("ensure")
				l.begin(t)
				defer l.stop()
				if ensures := l.cloud.count("ensure") - before; ensures != test.ensures {
					t.Errorf("%d Ensures, want %d", ensures, test.ensures)
				}
				if wrong := l.mismatch(); wrong != nil {
					t.Error(wrong)
				}
				l.core.record.mu.Lock()
				defer l.core.record.mu.Unlock()
				if l.core.record.listed != nil {
					t.Error("the list is kept, which names all targets")
				}
			})
		})
	}
}

func startLeaders(t *testing.T, withoutList bool) *leaders {
	t.Helper()
	l := &leaders{leases: fake.NewClientset(), origin: "v1", withoutList: withoutList}
	l.begin(t)
	l.changeNode("a", nodeWith("a"))
	l.changeNode("b", nodeWith("b"))
	time.Sleep(time.Minute)
	for i := range 3 {
		l.addService(serviceWith(named(fmt.Sprint("s", i))))
	}
	return l
}

// A leader that ends right after a change leaves no record of what was before it: a Service that was changed back, and nodes that are as they
// were, are no reason to believe it.
func TestALeaderThatEndsInAChangeLeavesNoRecordOfIt(t *testing.T) {
	key := keyOf(serviceWith(named("s0")))
	for name, test := range map[string]struct {
		there, back func(*leaders)
		lasts       time.Duration // until the plugin has been called, and nothing is recorded yet
		ensures     int
	}{
		"a Service": {
			func(l *leaders) {
				l.edit(key, func(s *corev1.Service) { s.Annotations = map[string]string{"lb": "other"} })
			},
			func(l *leaders) { l.edit(key, func(s *corev1.Service) { s.Annotations = nil }) }, 500 * time.Millisecond, 1,
		},
		"the nodes": {
			func(l *leaders) { l.changeNode("c", nodeWith("c")) },
			func(l *leaders) { l.changeNode("c", nil) }, 2500 * time.Millisecond, 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := startLeaders(t, true)
				time.Sleep(time.Minute)
				test.there(l)
				time.Sleep(test.lasts)
				l.stop()
				test.back(l)
				before := l.cloud.count("ensure")
				l.begin(t)
				defer l.stop()
				if ensures := l.cloud.count("ensure") - before; ensures != test.ensures {
					t.Errorf("%d Ensures, want %d", ensures, test.ensures)
				}
				if wrong := l.mismatch(); wrong != nil {
					t.Error(wrong)
				}
			})
		})
	}
}

// A Lease that cannot be read or written keeps no Service from its load balancer.
func TestARecordThatCannotBeKept(t *testing.T) {
	for _, verb := range []string{"get", "create", "update"} {
		t.Run(verb, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &leaders{leases: fake.NewClientset(), origin: "v1", withoutList: true}
				l.leases.PrependReactor(verb, "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, errors.New("forbidden")
				})
				l.begin(t)
				defer func() { l.stop() }()
				l.changeNode("a", nodeWith("a"))
				time.Sleep(time.Minute)
				for i := range 3 {
					l.addService(serviceWith(named(fmt.Sprint("s", i))))
				}
				time.Sleep(time.Second)
				if wrong := l.mismatch(); wrong != nil {
					t.Error(wrong)
				}
				time.Sleep(time.Hour)
				if tries := len(l.leases.Actions()); verb != "update" && tries > 40 {
					t.Errorf("%d requests in an hour", tries)
				}
			})
		})
	}
}

// Calls that begin while the record is written are removed from it by one write, however many they are.
func TestCallsThatWaitForTheRecordShareAWrite(t *testing.T) {
	leases, began, goOn := fake.NewClientset(), make(chan struct{}, 1), make(chan struct{})
	record := newRecord(&Record{
		Record:      leaserecord.Record{Leases: leases.CoordinationV1(), Namespace: "kube-system", Name: "load-balancers", Annotation: AnnotationRecord},
		Origin:      func(context.Context) (string, error) { return "v1", nil },
		WithoutList: true,
	}, nil)
	const services = 20
	content := recordContent{Services: map[types.UID]string{"other": "digest"}}
	for i := range services {
		content.Services[types.UID(fmt.Sprint(i))] = "digest"
	}
	record.read(t.Context())
	record.write(t.Context(), content)
	leases.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		select {
		case began <- struct{}{}:
		default:
		}
		<-goOn
		return false, nil, nil
	})
	before := len(leases.Actions())
	var calls sync.WaitGroup
	call := func(i int) {
		calls.Go(func() {
			record.calling(t.Context(), serviceWith(func(s *corev1.Service) { s.UID = types.UID(fmt.Sprint(i)) }), nil)
		})
	}
	call(0)
	<-began
	for i := range services - 1 {
		call(i + 1)
	}
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return len(record.count("", 0)) == services, nil
	})
	if err != nil {
		t.Error("not all calls have begun: ", err)
	}
	close(goOn)
	calls.Wait()
	if writes := len(leases.Actions()) - before; writes != 2 {
		t.Errorf("%d writes for %d calls, want 2", writes, services)
	}
	if left := slices.Collect(maps.Keys(record.stored.Services)); !slices.Equal(left, []types.UID{"other"}) {
		t.Errorf("the record has %v", left)
	}
}

// A record holds what fits into an annotation.
func TestALargeRecordFits(t *testing.T) {
	set, all := targetsOf(nil), map[types.NamespacedName]state{}
	for i := range 2 * recordLimit {
		service := serviceWith(named(fmt.Sprint("s", i)), func(s *corev1.Service) { s.UID = types.UID(fmt.Sprintf("%036d", i)) })
		all[keyOf(service)] = state{made: &made{
			service: service, ensured: true, lastEnsured: service, status: &corev1.LoadBalancerStatus{},
		}}
	}
	content := recordOf(all, set, digestOf("v1"), nil)
	text, err := json.Marshal(content)
	if err != nil || len(content.Services) != recordLimit || len(text) > 250_000 {
		t.Errorf("%d Services in %d bytes, %v", len(content.Services), len(text), err)
	}
}

// Labels of nodes are in no digest: a Service whose targets are selected by them is in no record, so the next leader ensures it.
func TestServicesThatSelectByLabelsAreInNoRecord(t *testing.T) {
	set, all := targetsOf([]*corev1.Node{nodeWith("a")}), map[types.NamespacedName]state{}
	for name, targets := range map[string]*targetSet{"plain": set, "selecting": set.labelled()} {
		service := serviceWith(named(name), func(s *corev1.Service) { s.UID = types.UID(name) })
		all[keyOf(service)] = state{made: &made{
			service: service, ensured: true, lastEnsured: service, status: &corev1.LoadBalancerStatus{}, targets: targets.members,
		}}
	}
	content := recordOf(all, set, digestOf("v1"), nil)
	if _, plain := content.Services["plain"]; !plain || len(content.Services) != 1 {
		t.Errorf("recorded %v", content.Services)
	}
}
