package rights_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/dev/requesttest"
)

// certificateSteps are the work of the controller of serving certificates, in the way in which it runs.
func certificateSteps(w way) []step {
	if !slices.Contains(w.args, "--controllers=*,kubelet-serving-certificate") {
		return nil
	}
	return []step{{"a kubelet asks for a serving certificate, which is approved", func(t *testing.T, s *scenario) {
		name := s.create(t)
		s.join(t, name)
		s.awaitDecision(t, s.asks(t, name, s.addressesOf(t, name)...), certificatesv1.CertificateApproved, "")
	}}}
}

// addressesOf returns the internal addresses of a node.
func (s *scenario) addressesOf(t *testing.T, node string) (ips []string) {
	t.Helper()
	s.awaitNode(t, node, "has addresses", func(found *corev1.Node) error {
		ips = nil
		for _, address := range found.Status.Addresses {
			if address.Type == corev1.NodeInternalIP {
				ips = append(ips, address.Address)
			}
		}
		if len(ips) == 0 {
			return errors.New("it has none")
		}
		return nil
	})
	return ips
}

// asks has the kubelet of a node ask for a certificate of its name and of addresses, and returns the name of the request.
func (s *scenario) asks(t *testing.T, node string, ips ...string) string {
	t.Helper()
	config, err := s.cluster.UserConfig("system:node:"+node, "system:nodes")
	must.NoError(t, err)
	object := requesttest.New(t, node, []string{node}, ips)
	object.GenerateName = "csr-"
	made, err := kubernetes.NewForConfigOrDie(config).CertificatesV1().CertificateSigningRequests().Create(t.Context(), object, metav1.CreateOptions{})
	must.NoError(t, err)
	return made.Name
}

// awaitDecision waits until a request has a condition whose message ends as given.
func (s *scenario) awaitDecision(t *testing.T, name string, want certificatesv1.RequestConditionType, end string) {
	t.Helper()
	poll.Until(t, "the request "+name+" is "+string(want), func(ctx context.Context) error {
		object, err := s.admin.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
		if err == nil && !slices.ContainsFunc(object.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Type == want && strings.HasSuffix(c.Message, end)
		}) {
			err = fmt.Errorf("its conditions are %v", object.Status.Conditions)
		}
		return err
	})
}

// TestEachMissingRightOfServingCertificatesIsNamed is TestEachMissingRightIsNamed for the rights that only this controller needs.
func TestEachMissingRightOfServingCertificatesIsNamed(t *testing.T) {
	ofCertificates := func(g grant) bool { return g.group == certificatesv1.GroupName }
	eachMissingRightIsNamed(t, deploy.With(deploy.RBAC, deploy.ServingCertificateRBAC), ofCertificates, "--controllers=*,kubelet-serving-certificate")
}

// TestServingCertificatesOnMetal has machines of an inventory ask for certificates: each gets one for what the inventory has of it, and none for
// the address of another.
func TestServingCertificatesOnMetal(t *testing.T) {
	s, _ := newMetalScenario(t, way{rights: deploy.With(deploy.MetalRBAC, deploy.ServingCertificateRBAC), args: []string{
		"--controllers=*,kubelet-serving-certificate", "--kubelet-serving-deny=Unknown",
	}}, "m1", "m2")
	s.launch(t)
	for _, name := range []string{"m1", "m2"} {
		s.join(t, name)
		s.awaitDecision(t, s.asks(t, name, "10.0.0."+name[1:]), certificatesv1.CertificateApproved, "")
	}
	s.awaitDecision(t, s.asks(t, "m1", "10.0.0.1", "10.0.0.2"), certificatesv1.CertificateDenied, ": 10.0.0.2")
}
