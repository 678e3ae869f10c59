package servingcertificate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/faults/pluginfault"
	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/extensions/servingcertificate"
)

type cloudMetadata = cloudprovider.InstanceMetadata

// TestSigned has kubelets ask for what the cloud reports, before and after their nodes appear, and the real signer sign it.
func TestSigned(t *testing.T) {
	f := newFixture(t)
	early, address := f.instance("early")
	before := asks(t, early, []string{early}, []string{address})
	m := f.start(t)
	awaitWaiting(t, m, servingcertificate.ReasonNoNode, 1)
	f.join(t, early)
	if got, want := signed(t, before), []string{early, address}; !slices.Equal(got, want) {
		t.Errorf("the certificate is for %q, want %q", got, want)
	}
	late, address := f.instance("late")
	f.join(t, late)
	signed(t, asks(t, late, []string{late}, []string{address}))
	awaitWaiting(t, m, servingcertificate.ReasonNoNode, 0)
	awaitApprovals(t, 2, m)
	for _, write := range m.Writes(t, "certificatesigningrequests") {
		if write.What != "patch approval 200" {
			t.Errorf("a write is %+v", write)
		}
	}
}

// TestAddressLearnedLater has a kubelet ask for an address that the cloud does not report yet. The request waits, the event names the
// address, and when the cloud has it, it is signed. That the Node has it is not enough.
func TestAddressLearnedLater(t *testing.T) {
	f := newFixture(t)
	m := f.start(t)
	node, address := f.instance("n")
	f.join(t, node)
	name := asks(t, node, []string{node}, []string{address, "10.99.0.1"})
	if got := awaitEvent(t, name, servingcertificate.ReasonNotReported); got[len(got)-len(": 10.99.0.1"):] != ": 10.99.0.1" {
		t.Errorf("the event is %q, want it to name the address and nothing else", got)
	}
	f.writeAddress(t, node, "10.99.0.1")
	awaitAsked(t, f, node, 3)
	awaitWaiting(t, m, servingcertificate.ReasonNotReported, 1)
	f.cloud.Fault("InstanceMetadata", node, addressed("10.99.0.1"))
	f.writeAddress(t, node, "10.99.0.2") // the node controller writes something when the cloud has learned of an address
	if got := signed(t, name); !slices.Contains(got, "10.99.0.1") {
		t.Errorf("the certificate is for %q", got)
	}
}

// writeAddress has a Node show an address.
func (f *fixture) writeAddress(t *testing.T, node, address string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"status": {"addresses": [{"type": "InternalIP", "address": %q}]}}`, address)
	_, err := admin.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	must.NoError(t, err)
}

// awaitAsked waits until the cloud has answered so many questions about a node.
func awaitAsked(t *testing.T, f *fixture, node string, least int) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("the cloud has answered %d questions about %s", least, node), func(context.Context) error {
		answered := 0
		for _, call := range f.cloud.Calls("InstanceMetadata", node) {
			if !call.Ended.IsZero() {
				answered++
			}
		}
		if answered < least {
			return fmt.Errorf("it has answered %d", answered)
		}
		return nil
	})
}

// TestSickNodesDelayNoOthers has the cloud hang for more nodes than there are workers, and fail for one. While that lasts, others get their
// certificates. Afterwards these get theirs.
func TestSickNodesDelayNoOthers(t *testing.T) {
	f := newFixture(t)
	f.start(t)
	waiting := map[string]string{}
	for i := range 20 {
		node, address := f.instance(fmt.Sprintf("hangs-%d", i))
		f.cloud.Fault("InstanceMetadata", node, pluginfault.Hang())
		f.join(t, node)
		waiting[node] = asks(t, node, nil, []string{address})
	}
	failing, address := f.instance("fails")
	f.cloud.Fault("InstanceMetadata", failing, pluginfault.Fail(errors.New("internal error")))
	f.join(t, failing)
	failed := asks(t, failing, nil, []string{address})
	for node := range waiting {
		poll.Until(t, "the call for "+node+" hangs", func(context.Context) error {
			if f.cloud.UnderWay("InstanceMetadata", node) == 0 {
				return errors.New("it does not")
			}
			return nil
		})
	}
	for i := range 3 {
		node, address := f.instance(fmt.Sprintf("healthy-%d", i))
		f.join(t, node)
		signed(t, asks(t, node, nil, []string{address}))
	}
	for node, name := range waiting {
		if f.cloud.UnderWay("InstanceMetadata", node) == 0 || conditionOf(t, name) != "" {
			t.Errorf("the call for %s hangs no more, and the others may have waited for that", node)
		}
	}
	f.cloud.Fault("InstanceMetadata", failing, pluginfault.Fault{})
	signed(t, failed)
}

// TestDecidedByAnotherApprover leaves alone what others have decided.
func TestDecidedByAnotherApprover(t *testing.T) {
	f := newFixture(t)
	node, address := f.instance("n")
	name := asks(t, node, nil, []string{address})
	object, err := get(t.Context(), name)
	must.NoError(t, err)
	object.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
		{Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, Reason: "ByHand"},
	}
	_, err = admin.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), name, object, metav1.UpdateOptions{})
	must.NoError(t, err)
	m := f.start(t)
	f.join(t, node)
	signed(t, asks(t, node, nil, []string{address}))
	if got := conditionOf(t, name); got != "Denied ByHand" {
		t.Errorf("the request has the conditions %q", got)
	}
	if writes := m.Writes(t, "certificatesigningrequests"); len(writes) != 1 {
		t.Errorf("the writes are %v, want one", writes)
	}
}

// TestTwoAtOnce has two controllers work, as for a moment when a lease was lost. Each request gets one condition.
func TestTwoAtOnce(t *testing.T) {
	f := newFixture(t)
	var names []string
	for i := range 10 {
		node, address := f.instance(fmt.Sprintf("n%d", i))
		f.join(t, node)
		names = append(names, asks(t, node, nil, []string{address}))
	}
	managers := []*harness.Manager{f.start(t), f.start(t)}
	for _, name := range names {
		signed(t, name)
		if got := conditionOf(t, name); got != "Approved "+servingcertificate.ReasonApproved {
			t.Errorf("the request %s has the conditions %q", name, got)
		}
	}
	awaitApprovals(t, float64(len(names)), managers...)
	for _, m := range managers {
		if failed := m.Metric(t, "mooring_serving_certificate_write_failures_total"); failed != 0 {
			t.Errorf("%g writes failed", failed)
		}
	}
}

// TestRate has a node ask more often than it may. A new leader goes on counting.
func TestRate(t *testing.T) {
	f := newFixture(t)
	f.flags = []string{"--kubelet-serving-approvals-per-hour=2"}
	node, address := f.instance("n")
	f.join(t, node)
	m := f.start(t)
	for range 2 {
		signed(t, asks(t, node, nil, []string{address}))
	}
	third := asks(t, node, nil, []string{address})
	awaitEvent(t, third, servingcertificate.ReasonTooMany)
	m.Stop()
	m = f.start(t)
	awaitWaiting(t, m, servingcertificate.ReasonTooMany, 1)
	if got := conditionOf(t, third); got != "" {
		t.Errorf("the third request has the conditions %q", got)
	}
}
