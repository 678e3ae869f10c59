package contest

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// own is the field manager that is ourselves.
const own = "ourselves"

// managed is an entry of the managed fields, "f:metadata" and so on written out.
func managed(manager string, at int64, fields string) metav1.ManagedFieldsEntry {
	when := metav1.NewTime(time.Unix(at, 0))
	return metav1.ManagedFieldsEntry{Manager: manager, Time: &when, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
}

const (
	setsZone      = `{"f:metadata":{"f:labels":{"f:topology.kubernetes.io/zone":{}}}}`
	setsAddresses = `{"f:status":{"f:addresses":{"k:{\"type\":\"InternalIP\"}":{".":{},"f:address":{}}}}}`
)

func TestTheOtherManagerOfAFieldIsFound(t *testing.T) {
	zone, addresses := []string{"f:metadata", "f:labels", "f:topology.kubernetes.io/zone"}, []string{"f:status", "f:addresses"}
	for name, test := range map[string]struct {
		field   []string
		entries []metav1.ManagedFieldsEntry
		want    string
	}{
		"nobody":                    {field: zone},
		"of a label":                {zone, []metav1.ManagedFieldsEntry{managed("kubelet", 9, setsAddresses), managed("rack-labeler", 1, setsZone)}, "rack-labeler"},
		"of the addresses":          {addresses, []metav1.ManagedFieldsEntry{managed("kubelet", 1, setsAddresses), managed("rack-labeler", 9, setsZone)}, "kubelet"},
		"the last one":              {zone, []metav1.ManagedFieldsEntry{managed("a", 1, setsZone), managed("b", 3, setsZone), managed("c", 2, setsZone)}, "b"},
		"not ourselves":             {zone, []metav1.ManagedFieldsEntry{managed("a", 1, setsZone), managed(own, 3, setsZone)}, "a"},
		"another one of our name":   {zone, []metav1.ManagedFieldsEntry{managed(own, 3, setsZone)}, own},
		"an entry of another shape": {zone, []metav1.ManagedFieldsEntry{managed("a", 1, `{"f:metadata":[]}`), {Manager: "b"}}, ""},
	} {
		if got := ManagerOf(test.entries, test.field, own); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// A cloud whose own answers differ, and somebody who changes a label now and then, are no contest.
func TestWhatIsNoContest(t *testing.T) {
	fields, now := Fields{}, time.Unix(1000, 0)
	const field = "/metadata/labels/a"
	for i := range 20 {
		value := map[string]string{field: fmt.Sprint(i % 2)}
		if paused := fields.Reversed(value, now); len(paused) > 0 {
			t.Fatalf("change %d of the cloud's answer is taken for a reversal", i)
		}
		fields.Wrote(value, now)
		now = now.Add(time.Second)
	}
	same := map[string]string{field: "x"}
	for i := range 20 {
		for range 5 { // a write that comes too late is planned again
			if paused := fields.Reversed(same, now); len(paused) > 0 {
				t.Fatalf("change %d, after the value stood for a while, is taken for a contest", i)
			}
		}
		fields.Wrote(same, now)
		now = now.Add(window)
	}
}
