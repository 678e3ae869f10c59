package rules

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/mooring-ccm/mooring/dev/simulation/double"
)

// TestDue has the calls that the reference's source asks for on histories of twenty minutes.
func TestDue(t *testing.T) {
	const end = 20 * time.Minute
	fresh, initialized, silent := &corev1.Node{}, &corev1.Node{}, &corev1.Node{}
	fresh.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider}}
	for _, node := range []*corev1.Node{fresh, initialized} {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	nodes := func(changes ...double.Change[corev1.Node]) double.Record {
		record := double.Record{}
		for i := range changes {
			changes[i].Object = "n"
		}
		record.NodeChanges, record.Starts = changes, []time.Duration{0}
		return record
	}
	services := func(changes ...double.Change[corev1.Service]) double.Record {
		record := double.Record{}
		for i := range changes {
			changes[i].Object = "s"
		}
		record.ServiceChanges, record.Starts = changes, []time.Duration{0}
		return record
	}
	made := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}}
	changed := made.DeepCopy()
	changed.Spec.Ports[0].Port = 81
	deleted := made.DeepCopy()
	deleted.DeletionTimestamp, deleted.Finalizers = &metav1.Time{}, []string{servicehelpers.LoadBalancerCleanupFinalizer}
	with := func(record double.Record, calls ...*double.Call) double.Record {
		record.Calls = calls
		return record
	}
	// denied is a node that no process finds, asked about for longer than anybody does.
	denied := func(methods ...string) double.Record {
		record := nodes(double.Change[corev1.Node]{After: fresh})
		for range 100 {
			for _, method := range methods {
				record.Calls = append(record.Calls, &double.Call{Method: method, Object: "n", Err: errors.New("not found")})
			}
		}
		return record
	}
	replicas := services(double.Change[corev1.Service]{At: time.Minute, After: made})
	replicas.Starts = []time.Duration{0, 0}
	// many are Services that are made when the nodes have come, and a call takes a second.
	many := with(services(double.Change[corev1.Service]{After: made}), &double.Call{Method: "EnsureLoadBalancer", Object: "s", Process: 1, Ended: time.Second})
	for _, name := range []string{"a", "b", "c", "d"} {
		at := time.Duration(len(many.NodeChanges)) * 2 * time.Second
		many.NodeChanges = append(many.NodeChanges, double.Change[corev1.Node]{At: at, Object: name, After: initialized})
		many.ServiceChanges = append(many.ServiceChanges, double.Change[corev1.Service]{At: 10 * time.Minute, Object: name, After: made})
	}
	const doublings = 18 // of 5 ms in twenty minutes
	restarted := nodes(double.Change[corev1.Node]{After: fresh})
	restarted.Starts = append(restarted.Starts, time.Minute)
	again := denied("InstanceMetadata") // by two processes, the second of which forgets the pauses of the first
	again.Starts = restarted.Starts
	for _, test := range []struct {
		name, method string
		record       double.Record
		want         int
	}{
		// One to initialize it, one at the start of the status pass, and one in each of its periods.
		{"initialized after a second", "InstanceMetadata", nodes(
			double.Change[corev1.Node]{After: fresh}, double.Change[corev1.Node]{At: time.Second, Ours: true, Before: fresh, After: initialized},
		), 1 + 1 + 3},
		{"a change and a restart while it is not initialized", "InstanceMetadata", restarted, 2},
		{"a failure is retried once", "InstanceMetadata", with(nodes(double.Change[corev1.Node]{After: fresh}),
			&double.Call{Method: "InstanceMetadata", Object: "n", Err: errors.New("failed")}), 2},
		{"a failure to find addresses by the ID", "InstanceMetadata", with(nodes(double.Change[corev1.Node]{After: initialized}),
			&double.Call{Method: "NodeAddressesByProviderID", Object: "n", Err: errors.New("failed")}), 1 + 4 + 1},
		// A pause doubles up to 1,000 s by the reference, and the register adds one question in two minutes.
		{"failures for twenty minutes", "InstanceMetadata", denied("InstanceMetadata"), 1 + doublings + 10},
		{"failures for twenty minutes, and a restart", "InstanceMetadata", again, 2*(1+doublings) + 10},
		{"failures by the ID and then by the name", "InstanceMetadata", denied("NodeAddressesByProviderID", "NodeAddresses"), 2 * (1 + doublings + 10)},
		{"a replica takes over that started before the Service was made", ensureOrUpdate, with(replicas,
			&double.Call{Method: "EnsureLoadBalancer", Object: "s", Process: 1, Began: time.Minute, Ended: time.Minute},
			&double.Call{Method: "EnsureLoadBalancer", Object: "s", Process: 2, Began: 4 * time.Minute, Ended: 4 * time.Minute}), 2},
		{"nodes that come every other second, with one Service and four that are made later", ensureOrUpdate, many, 1 + 4 + 4},
		{"a replica that never leads", ensureOrUpdate, with(replicas,
			&double.Call{Method: "InstanceMetadata", Object: "n", Process: 1},
			&double.Call{Method: "EnsureLoadBalancer", Object: "s", Process: 1, Began: time.Minute, Ended: time.Minute}), 1},
		{"silent for a minute", "InstanceExists", nodes(
			double.Change[corev1.Node]{After: silent}, double.Change[corev1.Node]{At: time.Minute, Before: silent, After: initialized},
		), 12 + 1},
		{"silent for a minute", "InstanceShutdown", nodes(
			double.Change[corev1.Node]{After: silent}, double.Change[corev1.Node]{At: time.Minute, Before: silent, After: initialized},
		), 12 + 1},
		{"two denials of one round", "InstanceExists", with(nodes(
			double.Change[corev1.Node]{After: silent}, double.Change[corev1.Node]{At: 10 * time.Second, Before: silent},
		), &double.Call{Method: "InstanceExists", Object: "n", Answer: double.No}, &double.Call{Method: "InstanceExists", Object: "n", Began: 5 * time.Second, Ended: 5 * time.Second, Answer: double.No}),
			2 + 1 + 2 + affirmations},
		{"a Service whose port changes", ensureOrUpdate, services(
			double.Change[corev1.Service]{After: made}, double.Change[corev1.Service]{At: time.Minute, Before: made, After: changed},
		), 2},
		{"an Ensure that fails with other targets than the last call", ensureOrUpdate, with(services(double.Change[corev1.Service]{After: made}),
			&double.Call{Method: "EnsureLoadBalancer", Object: "s", Targets: []string{"n"}},
			&double.Call{Method: "EnsureLoadBalancer", Object: "s", Targets: []string{"n", "m"}, Err: errors.New("failed")}), 1 + 1 + 1},
		{"an Ensure that fails with the targets of the last call", ensureOrUpdate, with(services(double.Change[corev1.Service]{After: made}),
			&double.Call{Method: "EnsureLoadBalancer", Object: "s", Targets: []string{"n"}},
			&double.Call{Method: "EnsureLoadBalancer", Object: "s", Targets: []string{"n"}, Err: errors.New("failed")}), 1 + 1},
		{"a Service whose status Mooring writes", ensureOrUpdate, services(
			double.Change[corev1.Service]{After: made}, double.Change[corev1.Service]{At: time.Minute, Ours: true, Before: made, After: made},
		), 1},
		{"a Service that is deleted", "EnsureLoadBalancerDeleted", services(
			double.Change[corev1.Service]{After: made}, double.Change[corev1.Service]{At: time.Minute, Before: made, After: deleted},
			double.Change[corev1.Service]{At: time.Minute + time.Second, Ours: true, Before: deleted},
		), 1},
		{"a list that lacks a node", "CreateRoute", with(nodes(double.Change[corev1.Node]{After: initialized}), &double.Call{Method: "ListRoutes", Listed: []string{}}), 1},
		{"a list of a node that is gone", "DeleteRoute", with(nodes(), &double.Call{Method: "ListRoutes", Listed: []string{"n"}}), 1},
		{"periods of routes", "ListRoutes", nodes(), places + 120},
	} {
		if got := dueCalls(test.record, end)[test.method]; got != test.want {
			t.Errorf("%s: %d calls of %s are due, want %d", test.name, got, test.method, test.want)
		}
	}
}
