package servingcertificate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/dev/requesttest"
	"github.com/mooring-ccm/mooring/extensions/servingcertificate"
)

// TestForgedRequests makes every forged request through the API. None is signed: the API server does not take it, or it is denied with a
// condition and an event that say what is wrong.
func TestForgedRequests(t *testing.T) {
	f := newFixture(t)
	f.flags = []string{"--kubelet-serving-deny=Invalid", "--kubelet-serving-approvals-per-hour=100"}
	m := f.start(t)
	node, address := f.instance("n")
	f.join(t, node)
	taken := 0
	for name, forgery := range requesttest.Forgeries(t) {
		t.Run(name, func(t *testing.T) {
			made, err := submit(t, requesttest.New(t, node, []string{node, node + ".example.com"}, []string{address}, forgery.Spoil))
			if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsRequestEntityTooLargeError(err) {
				return
			}
			must.NoError(t, err)
			taken++
			awaitCondition(t, made, "Denied "+servingcertificate.ReasonInvalid)
			event := awaitEvent(t, made, servingcertificate.ReasonInvalid)
			object, err := get(t.Context(), made)
			must.NoError(t, err)
			if message := object.Status.Conditions[0].Message; !strings.Contains(message, forgery.Want) || !strings.Contains(event, forgery.Want) {
				t.Errorf("the condition says %q and the event %q, want %q", message, event, forgery.Want)
			}
			if len(object.Status.Certificate) > 0 {
				t.Errorf("it was signed")
			}
		})
	}
	if taken < 20 {
		t.Errorf("the API server took %d forged requests: this test tests it, not the controller", taken)
	}
	if denied := m.Metric(t, "mooring_serving_certificate_denials_total", "reason", servingcertificate.ReasonInvalid); denied != float64(taken) {
		t.Errorf("%g denials are counted, want %d", denied, taken)
	}
	signed(t, asks(t, node, []string{node}, []string{address})) // the controller is well
}

// TestWhatOthersHave has a node ask in due form for what is another's.
func TestWhatOthersHave(t *testing.T) {
	f := newFixture(t)
	f.flags = []string{"--kubelet-serving-deny=Unknown", "--kubelet-serving-approvals-per-hour=100", "--kubelet-serving-allowed-dns={node}.nodes.example.com"}
	f.start(t)
	other, othersAddress := f.instance("other")
	node, address := f.instance("n")
	f.join(t, other)
	f.join(t, node)
	for what, asked := range map[string]struct{ names, ips []string }{
		"the address of another instance":  {nil, []string{address, othersAddress}},
		"the name of another instance":     {[]string{node, other}, nil},
		"the name of the API server":       {[]string{node, "kubernetes.default.svc"}, nil},
		"the address of the API server":    {nil, []string{address, "10.96.0.1"}},
		"the allowed name of another node": {[]string{other + ".nodes.example.com"}, nil},
	} {
		t.Run(what, func(t *testing.T) {
			name := asks(t, node, asked.names, asked.ips)
			awaitCondition(t, name, "Denied "+servingcertificate.ReasonNotReported)
			event, wants := awaitEvent(t, name, servingcertificate.ReasonNotReported), append(asked.names, asked.ips...)
			if !strings.HasSuffix(event, ": "+wants[len(wants)-1]) {
				t.Errorf("the event %q does not name what is another's alone", event)
			}
		})
	}
	signed(t, asks(t, node, []string{node, node + ".nodes.example.com"}, []string{address}))
}

// TestClaimedInstance has a machine join under a name of its own with the provider ID of another instance, as its kubelet can write it.
func TestClaimedInstance(t *testing.T) {
	f := newFixture(t)
	m := f.start(t)
	_, address := f.instance("database")
	thief := f.node("thief")
	f.joinAs(t, thief, f.cloud.ProviderID(f.node("database")))
	name := asks(t, thief, nil, []string{address})
	awaitWaiting(t, m, servingcertificate.ReasonNoInstance, 1)
	f.cloud.AddInstance(thief) // has an instance of its own, too
	f.writeAddress(t, thief, "10.99.0.9")
	awaitAsked(t, f, thief, 2)
	awaitWaiting(t, m, servingcertificate.ReasonNoInstance, 1)
	if got := conditionOf(t, name); got != "" {
		t.Errorf("the request has the conditions %q", got)
	}
}

// TestAYoungerTwinBlocksNothing has a machine join with the provider ID of a node, as its kubelet can write it: that node has its certificate as
// before, and the machine gets none.
func TestAYoungerTwinBlocksNothing(t *testing.T) {
	f := newFixture(t)
	m := f.start(t)
	node, address := f.instance("n")
	f.join(t, node)
	poll.Within(t, time.Minute, "a node that joins is younger", func(ctx context.Context) error {
		joined, err := admin.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		return errors.Join(err, poll.Holds(err == nil && time.Since(joined.CreationTimestamp.Time) > 2*time.Second))
	})
	thief, _ := f.instance("thief")
	f.joinAs(t, thief, f.cloud.ProviderID(node))
	asks(t, thief, []string{thief}, nil)
	awaitWaiting(t, m, servingcertificate.ReasonNoInstance, 1)
	signed(t, asks(t, node, []string{node}, []string{address}))
}

// TestOtherSigners leaves requests of other signers alone, whatever they ask for.
func TestOtherSigners(t *testing.T) {
	f := newFixture(t)
	f.flags = []string{"--kubelet-serving-deny=Unknown"}
	f.start(t)
	node, address := f.instance("n")
	f.join(t, node)
	other := asks(t, node, []string{node}, []string{address}, func(form *requesttest.Form) { form.Object.Spec.SignerName = "example.com/other" })
	client := asks(t, node, nil, nil, func(form *requesttest.Form) {
		form.Object.Spec.SignerName = certificatesv1.KubeAPIServerClientSignerName
		form.Object.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	})
	signed(t, asks(t, node, []string{node}, []string{address}))
	for _, name := range []string{other, client} {
		if got := conditionOf(t, name); got != "" {
			t.Errorf("the request %s has the conditions %q", name, got)
		}
	}
}
