package metal_test

import (
	"context"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/dev/e2e/rack"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/dev/requesttest"
)

// forgery is a request that a node makes for what is not its own.
type forgery struct {
	// request is its name, and about what it asks for.
	request, about string
	// reason is the reason of the event that explains why the request waits.
	reason string
}

// healthz asks a kubelet how it is, through the API server, which verifies the kubelet's certificate.
func (l *fixture) healthz(ctx context.Context, m *machine) error {
	answer, err := l.client.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/" + m.Name + "/proxy/healthz").DoRaw(ctx)
	if err == nil && string(answer) != "ok" {
		err = fmt.Errorf("the kubelet answers %q", answer)
	}
	return err
}

// uncertified shows that the API server reaches no kubelet before there is a manager, and has the first machine ask for what belongs to
// others, before all honest requests are approved: with the identity of its node, and names and addresses of others.
func (s *scene) uncertified(t *testing.T) {
	for _, m := range s.machines {
		if err := s.healthz(t.Context(), m); err == nil {
			t.Errorf("the API server reaches the kubelet of %s, which can have no certificate that holds", m.Name)
		}
	}
	forger, victim := s.machines[0], s.machines[1]
	own, others := forger.Addr4().Addr().String(), victim.Addr4().Addr().String()
	for _, forged := range []struct {
		about, reason string
		names, ips    []string
		spoil         func(*requesttest.Form)
	}{
		{"another node's name", "ServingCertificateAddressUnknown", []string{forger.Name, victim.Name}, []string{own}, nothing},
		{"another machine's address", "ServingCertificateAddressUnknown", []string{forger.Name}, []string{own, others}, nothing},
		{"another machine's address alone", "ServingCertificateAddressUnknown", nil, []string{victim.Addr6().Addr().String()}, nothing},
		{"the address of the control plane", "ServingCertificateAddressUnknown", []string{forger.Name}, []string{rack.ControlPlane4.Addr().String()}, nothing},
		{"an address of a load balancer", "ServingCertificateAddressUnknown", []string{forger.Name}, []string{pools[0].Addr().Next().String()}, nothing},
		{"a name without a node", "ServingCertificateAddressUnknown", []string{forger.Name, "kubernetes.default.svc"}, []string{own}, nothing},
		{"all names of a domain", "ServingCertificateRequestInvalid", []string{"*.example.com"}, []string{own}, nothing},
		{"a certificate of a client, too", "ServingCertificateRequestInvalid", []string{forger.Name}, []string{own}, requesttest.Usages(
			certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth, certificatesv1.UsageClientAuth)},
	} {
		name, err := s.ask(t, forger, forged.names, forged.ips, forged.spoil)
		must.NoError(t, err)
		s.forged = append(s.forged, forgery{name, forged.about, forged.reason})
	}
	if _, err := s.ask(t, forger, []string{victim.Name}, []string{others}, requesttest.Subject(func(subject *pkix.Name) {
		subject.CommonName = "system:node:" + victim.Name
	})); !apierrors.IsForbidden(err) {
		t.Errorf("a request for another node's subject: %v, want that the API server does not let it be made", err)
	}
}

// nothing leaves a request as a kubelet makes it.
func nothing(*requesttest.Form) {}

// ask makes a request with the identity of a machine's node, and returns its name.
func (l *fixture) ask(t *testing.T, as *machine, names, ips []string, spoil func(*requesttest.Form)) (string, error) {
	t.Helper()
	config, err := l.cluster.UserConfig("system:node:"+as.Name, "system:nodes")
	must.NoError(t, err)
	object := requesttest.New(t, as.Name, names, ips, spoil)
	object.GenerateName = "csr-test-"
	made, err := kubernetes.NewForConfigOrDie(config).CertificatesV1().CertificateSigningRequests().Create(t.Context(), object, metav1.CreateOptions{})
	return made.Name, err
}

// certified waits until the API server reaches all kubelets. The manager has then approved each request that matches the inventory, also the honest
// request of the machine that forges others. kube-controller-manager has signed them.
func (s *scene) certified(t *testing.T) {
	for _, m := range s.machines {
		poll.Until(t, "the kubelet of "+m.Name+" is reached with a verified certificate", func(ctx context.Context) error { return s.healthz(ctx, m) })
	}
	s.requireForgedPending(t) // the requests of a node are decided together, and the honest one is approved
	for _, forged := range s.forged {
		poll.Until(t, "an event says why the request for "+forged.about+" waits", func(ctx context.Context) error {
			return s.waits(ctx, forged)
		})
	}
}

// waits returns an error unless an event says why a forged request waits.
func (s *scene) waits(ctx context.Context, forged forgery) error {
	events, err := s.client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + forged.request})
	if err != nil {
		return err
	}
	var reasons []string
	for _, event := range events.Items {
		if reasons = append(reasons, event.Reason); event.Reason == forged.reason {
			return nil
		}
	}
	return fmt.Errorf("its events have the reasons %q, want %s", reasons, forged.reason)
}

// certifiedAnew has the machine that forges make one more honest request. All requests of a node are looked at together: when the leader of now
// has approved that one, it has looked at the forged ones.
func (s *scene) certifiedAnew(t *testing.T) {
	forger := s.machines[0]
	name, err := s.ask(t, forger, []string{forger.Name}, []string{forger.Addr4().Addr().String()}, nothing)
	must.NoError(t, err)
	poll.Until(t, "the honest request is approved and signed", func(ctx context.Context) error {
		object, err := s.client.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
		if err == nil && (!approved(object) || len(object.Status.Certificate) == 0) {
			err = fmt.Errorf("its conditions are %v", object.Status.Conditions)
		}
		return err
	})
	s.requireForgedPending(t)
}

// requireForgedPending fails if a forged request was approved, denied or signed.
func (s *scene) requireForgedPending(t *testing.T) {
	t.Helper()
	if len(s.forged) == 0 {
		must.NoError(t, errors.New("nothing was forged"))
	}
	for _, forged := range s.forged {
		object, err := s.client.CertificatesV1().CertificateSigningRequests().Get(t.Context(), forged.request, metav1.GetOptions{})
		must.NoError(t, err)
		if len(object.Status.Conditions) > 0 || len(object.Status.Certificate) > 0 {
			t.Errorf("the request for %s does not wait: conditions %v, and a certificate of %d bytes",
				forged.about, object.Status.Conditions, len(object.Status.Certificate))
		}
	}
}

func approved(object *certificatesv1.CertificateSigningRequest) bool {
	return slices.ContainsFunc(object.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved
	})
}
