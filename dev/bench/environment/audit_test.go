package environment

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/mooring-ccm/mooring/dev/harness"
)

func TestRequests(t *testing.T) {
	began := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	event := func(user, verb, resource, subresource, name string, after time.Duration) auditv1.Event {
		return auditv1.Event{
			StageTimestamp: metav1.NewMicroTime(began.Add(after + 8*time.Second)),
			User:           authnv1.UserInfo{Username: user}, Verb: verb, RequestReceivedTimestamp: metav1.NewMicroTime(began.Add(after)),
			ObjectRef: &auditv1.ObjectReference{Resource: resource, Subresource: subresource, Name: name},
		}
	}
	events := []auditv1.Event{
		event("us", "patch", "nodes", "", "a", time.Second),
		event("us", "patch", "nodes", "status", "a", time.Second),
		event("us", "patch", "nodes", "status", "b", 2*time.Second),
		event("us", "get", "nodes", "", "a", time.Second),
		event("them", "patch", "nodes", "", "a", time.Second),
		event("us", "update", "leases", "", harness.Lease, time.Second),
		event("us", "update", "leases", "", "another", time.Second),
		event("us", "delete", "nodes", "", "early", -time.Second),
		event("us", "delete", "nodes", "", "late", time.Minute),
		event("us", "get", "leases", "", harness.Lease, time.Second),
		event("us", "watch", "nodes", "", "", -time.Second),
		event("us", "watch", "services", "", "", 5*time.Second), // ends late
	}
	ready := event("us", "get", "", "", "", time.Second)
	ready.ObjectRef, ready.RequestURI = nil, "/readyz?verbose"
	events = append(events, ready)
	counts := requestsOf(events, "us", began, began.Add(10*time.Second))
	want := map[string]int{"patch nodes": 1, "patch nodes/status": 2, "update leases": 1}
	if diff := cmp.Diff(want, counts.writes); diff != "" || counts.leaseWrites != 1 {
		t.Errorf("%d writes of the lease, want 1; others (-want +got):\n%s", counts.leaseWrites, diff)
	}
	want = map[string]int{"get nodes": 1, "get leases": 1, "watch nodes": 1, "get /readyz": 1}
	if diff := cmp.Diff(want, counts.reads); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
}
