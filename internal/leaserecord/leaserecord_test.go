package leaserecord_test

import (
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/mooring-ccm/mooring/internal/leaserecord"
)

// Two replicas write one record: the second one finds that it has changed, and what the first one wrote stays.
func TestARecordOfTwoReplicas(t *testing.T) {
	client := fake.NewClientset()
	record := leaserecord.Record{Leases: client.CoordinationV1(), Namespace: "kube-system", Name: "record", Annotation: "example.com/record"}
	_, none, err := record.Read(t.Context())
	if err != nil || none.Lease() != nil {
		t.Fatalf("read %v, %v; want that there is none", none, err)
	}
	if _, err := record.Write(t.Context(), none, "first", time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := record.Write(t.Context(), none, "second", time.Now()); !errors.Is(err, leaserecord.ErrOutdated) {
		t.Errorf("writing it anew returned %v", err)
	}
	text, version, err := record.Read(t.Context())
	if err != nil || text != "first" {
		t.Fatalf("read %q, %v", text, err)
	}
	if _, err := record.Write(t.Context(), version, "third", time.Now()); err != nil {
		t.Fatal(err)
	}
	if text, _, _ := record.Read(t.Context()); text != "third" {
		t.Errorf("read %q", text)
	}
}
