package servingcertificate_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrl "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/dev/faults/pluginfault"
	"github.com/mooring-ccm/mooring/dev/integration/faulty"
	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/dev/requesttest"
	"github.com/mooring-ccm/mooring/extensions/servingcertificate"
	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// fixture is a cloud of a test's own, whose nodes have names of their own.
type fixture struct {
	cloud  *faulty.Cloud
	flags  []string
	prefix string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	name := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(t.Name(), "Test"), "/", "-"))
	f := &fixture{cloud: faulty.New(name, faulty.Options{}), prefix: name}
	t.Cleanup(f.cloud.Release)
	return f
}

// start runs the controller until the test ends, with the rights that ship and nothing else.
func (f *fixture) start(t *testing.T) *harness.Manager {
	t.Helper()
	controller, flags := servingcertificate.Controller(), pflag.NewFlagSet("", pflag.ContinueOnError)
	controller.AddFlags(flags)
	must.NoError(t, flags.Parse(f.flags))
	must.NoError(t, errors.Join(controller.Validate()...))
	cached := cache.Options{ByObject: map[client.Object]cache.ByObject{}}
	for object, selector := range controller.Cached {
		cached.ByObject[object] = cache.ByObject{Field: selector}
	}
	return harness.Start(t, harness.Options{
		Cluster: cluster, Component: controller.Name, Cache: cached,
		Build: func(parts harness.Parts) (ctrl.Runnable, error) {
			decorated := cloud.Decorate(f.cloud, cloud.Options{Registerer: parts.Registry, MaxInFlight: 64})
			inventory := instances.New(instances.Options{Cloud: decorated, Registerer: parts.Registry})
			rules := ownership.Rules{ProviderName: f.prefix, Schemes: []string{f.prefix}}
			return controller.New(context.Background(), ccm.Environment{
				Manager: parts.Manager, Config: parts.GetConfig(), Client: parts.GetClient(), Recorder: parts.Recorder, Registerer: parts.Registry, Logger: parts.Logger,
				Instances: func() (ccm.Instances, error) { return known{inventory, rules}, nil },
			})
		},
	})
}

// known are the instances as the manager knows them.
type known struct {
	*instances.Inventory
	rules ownership.Rules
}

func (k known) Lookup(ctx context.Context, node *corev1.Node, maxAge time.Duration) (ccm.Instance, error) {
	said, err := k.Inventory.Lookup(ctx, node, maxAge)
	return ccm.Instance{Exists: said.Status == instances.Found, Metadata: said.Metadata, Answered: said.Answered, At: said.At}, err
}

func (k known) Foreign(node *corev1.Node) bool {
	return k.rules.Decide(node).Owner == ownership.Foreign
}

func (k known) Doubt(node *corev1.Node, answer ccm.Instance) string {
	if decision := k.rules.Decide(node); !decision.ProvenBy(answer.Answered) {
		return decision.Reason()
	}
	return ""
}

// node is the name of a node of this test.
func (f *fixture) node(name string) string { return f.prefix + "-" + name }

// instance has the cloud get an instance, and returns the name of its node and its address.
func (f *fixture) instance(name string) (node, address string) {
	node = f.node(name)
	f.cloud.AddInstance(node)
	return node, f.cloud.Address(node)
}

// join has a node appear that was initialized.
func (f *fixture) join(t *testing.T, node string) {
	t.Helper()
	f.joinAs(t, node, f.cloud.ProviderID(node))
}

// joinAs has a node appear with any provider ID.
func (f *fixture) joinAs(t *testing.T, node, providerID string) {
	t.Helper()
	_, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: corev1.NodeSpec{ProviderID: providerID},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
	t.Cleanup(func() {
		must.NoError(t, admin.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), node, metav1.DeleteOptions{}))
	})
}

// asks has the kubelet of a node ask for a certificate, and returns the name of the request.
func asks(t *testing.T, node string, names, ips []string, spoil ...func(*requesttest.Form)) string {
	t.Helper()
	name, err := submit(t, requesttest.New(t, node, names, ips, spoil...))
	must.NoError(t, err)
	return name
}

// submit makes a request as the user that it names.
func submit(t *testing.T, object *certificatesv1.CertificateSigningRequest) (string, error) {
	t.Helper()
	config := cluster.AdminConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: object.Spec.Username, Groups: object.Spec.Groups}
	object.GenerateName = "csr-"
	made, err := kubernetes.NewForConfigOrDie(config).CertificatesV1().CertificateSigningRequests().Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	t.Cleanup(func() {
		must.NoError(t, admin.CertificatesV1().CertificateSigningRequests().Delete(context.WithoutCancel(t.Context()), made.Name, metav1.DeleteOptions{}))
	})
	return made.Name, nil
}

func get(ctx context.Context, name string) (*certificatesv1.CertificateSigningRequest, error) {
	return admin.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
}

// signed waits for the certificate of a request, and returns the names and addresses in it.
func signed(t *testing.T, name string) (entries []string) {
	t.Helper()
	poll.Until(t, "the request "+name+" is signed", func(ctx context.Context) error {
		object, err := get(ctx, name)
		if err != nil {
			return err
		}
		block, _ := pem.Decode(object.Status.Certificate)
		if block == nil {
			return fmt.Errorf("its status is %+v, and its events are %q", object.Status, events(t, name))
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		must.NoError(t, err)
		if err := certificate.VerifyHostname(""); certificate.IsCA || !slices.Contains(certificate.ExtKeyUsage, x509.ExtKeyUsageServerAuth) || err == nil {
			t.Errorf("the certificate is %+v", certificate)
		}
		entries = slices.Clone(certificate.DNSNames)
		for _, ip := range certificate.IPAddresses {
			entries = append(entries, ip.String())
		}
		return nil
	})
	return entries
}

// conditionOf returns what was decided about a request, as "Type Reason"; empty if nothing was.
func conditionOf(t *testing.T, name string) string {
	t.Helper()
	object, err := get(t.Context(), name)
	must.NoError(t, err)
	var all []string
	for _, condition := range object.Status.Conditions {
		all = append(all, string(condition.Type)+" "+condition.Reason)
	}
	return strings.Join(all, ", ")
}

// awaitCondition waits until a decision about a request begins as given.
func awaitCondition(t *testing.T, name, want string) {
	t.Helper()
	poll.Until(t, "the request "+name+" has the condition "+want, func(context.Context) error {
		if got := conditionOf(t, name); got != want {
			return fmt.Errorf("it has %q, and its events are %q", got, events(t, name))
		}
		return nil
	})
}

// events returns the events of a request, as "Reason: message".
func events(t *testing.T, name string) (all []string) {
	t.Helper()
	list, err := admin.CoreV1().Events(corev1.NamespaceAll).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
	must.NoError(t, err)
	for _, event := range list.Items {
		all = append(all, event.Reason+": "+event.Message)
	}
	return all
}

// awaitEvent waits for an event of a request that begins as given, and returns it.
func awaitEvent(t *testing.T, name, beginning string) (found string) {
	t.Helper()
	poll.Until(t, "the request "+name+" has the event "+beginning, func(context.Context) error {
		all := events(t, name)
		i := slices.IndexFunc(all, func(event string) bool { return strings.HasPrefix(event, beginning) })
		if i < 0 {
			return fmt.Errorf("its events are %q", all)
		}
		found = all[i]
		return nil
	})
	return found
}

// awaitWaiting waits until so many requests wait for a reason.
func awaitWaiting(t *testing.T, m *harness.Manager, reason string, want float64) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("%g requests wait for %s", want, reason), func(context.Context) error {
		if got := m.Metric(t, "mooring_serving_certificate_waiting_requests", "reason", reason); got != want {
			return fmt.Errorf("%g do", got)
		}
		return nil
	})
}

// awaitApprovals waits until managers have counted so many approvals in all. The signer may see an approval before its manager counts it.
func awaitApprovals(t *testing.T, want float64, managers ...*harness.Manager) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("%g approvals are counted", want), func(context.Context) error {
		total := 0.0
		for _, m := range managers {
			total += m.Metric(t, "mooring_serving_certificate_approvals_total")
		}
		if total != want {
			return fmt.Errorf("%g are", total)
		}
		return nil
	})
}

// addressed makes an answer of the cloud have further addresses.
func addressed(ips ...string) pluginfault.Fault {
	return pluginfault.Describe(func(wrong *cloudMetadata) {
		wrong.NodeAddresses = slices.Clone(wrong.NodeAddresses)
		for _, ip := range ips {
			wrong.NodeAddresses = append(wrong.NodeAddresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: net.ParseIP(ip).String()})
		}
	})
}
