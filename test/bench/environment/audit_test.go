package environment

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

func TestWrites(t *testing.T) {
	began := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	event := func(user, verb, resource, subresource, name string, after time.Duration) auditv1.Event {
		return auditv1.Event{
			User: authnv1.UserInfo{Username: user}, Verb: verb, RequestReceivedTimestamp: metav1.NewMicroTime(began.Add(after)),
			ObjectRef: &auditv1.ObjectReference{Resource: resource, Subresource: subresource, Name: name},
		}
	}
	events := []auditv1.Event{
		event("us", "patch", "nodes", "", "a", time.Second),
		event("us", "patch", "nodes", "status", "a", time.Second),
		event("us", "patch", "nodes", "status", "b", 2*time.Second),
		event("us", "get", "nodes", "", "a", time.Second),
		event("them", "patch", "nodes", "", "a", time.Second),
		event("us", "update", "leases", "", leaseName, time.Second),
		event("us", "update", "leases", "", "another", time.Second),
		event("us", "delete", "nodes", "", "early", -time.Second),
		event("us", "delete", "nodes", "", "late", time.Minute),
	}
	counts, lease := writes(events, "us", began, began.Add(10*time.Second))
	want := map[string]int{"patch nodes": 1, "patch nodes/status": 2, "update leases": 1}
	if diff := cmp.Diff(want, counts); diff != "" || lease != 1 {
		t.Errorf("%d writes of the lease, want 1; others (-want +got):\n%s", lease, diff)
	}
}
