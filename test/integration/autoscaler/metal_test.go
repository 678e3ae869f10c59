package autoscaler_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/internal/autoscaler/externalgrpc"
	"github.com/mooring-ccm/mooring/localcluster/localclustertest"
	_ "github.com/mooring-ccm/mooring/providers/metal" // the provider of these tests
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/power/redfishsim"
)

// rack is the group of machines.
const rack = "rack"

// newRack starts a manager with the provider metal and two machines, of which the first is on, and an autoscaler.
func newRack(t *testing.T) (*fixture, *redfishsim.Service) {
	t.Helper()
	service := redfishsim.New("admin", "pass")
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	f := &fixture{faults: newFaults(), dir: t.TempDir(), port: localclustertest.FreePort(t), securePort: localclustertest.FreePort(t)}
	text := fmt.Sprintf(`apiVersion: %s
kind: %s
power: {interval: 1s}
nodeGroups: [{name: %s, machines: {zones: [a]}, minCycleTime: 0s, capacity: {cpu: "4", memory: 8Gi, pods: "110"}}]
inventory:
  defaults: {zone: a, bmc: {credentials: {username: admin, passwordFile: password}}}
  machines:
`, config.APIVersion, config.CloudConfigKind, rack)
	for i, power := range []string{redfishsim.On, redfishsim.Off} {
		name := fmt.Sprintf("m%d", i)
		own := uuid.NewSHA1(uuid.NameSpaceDNS, []byte(name)).String() // as the node agent has it
		service.SetUUID(name, own)
		service.SetPower(name, power)
		text += fmt.Sprintf("  - {name: %s, systemUUID: %s, addresses: [{address: 10.9.0.%d}], bmc: {redfish: {endpoint: %q, insecureSkipVerify: true, systemID: %[1]s}}}\n",
			name, own, i+1, server.URL)
	}
	file := filepath.Join(f.dir, "cloud.yaml")
	must(t, errors.Join(os.WriteFile(file, []byte(text), 0o600), os.WriteFile(filepath.Join(f.dir, "password"), []byte("pass"), 0o600)))
	grantRecord(t)
	f.ca = newAuthority(t, f.dir, "ca")
	pair := f.ca.sign(t, f.dir, "server")
	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), metav1.NamespaceSystem, "cloud-controller-manager")
	must(t, err)
	f.args = []string{
		"--cloud-provider=metal", "--cloud-config=" + file, "--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig, "--bind-address=127.0.0.1", "--secure-port=" + f.securePort, "--cert-dir=" + t.TempDir(),
		"--autoscaler-bind-address=127.0.0.1", "--autoscaler-port=" + f.port, "--controllers=*,cluster-autoscaler-provider",
		"--autoscaler-tls-cert-file=" + pair.certificate, "--autoscaler-tls-private-key-file=" + pair.key, "--autoscaler-client-ca-file=" + f.ca.file,
		"--leader-elect=false", "--configure-cloud-routes=false", "--node-monitor-period=1s", "--node-deletion-min-age=0s",
		"--node-deletion-min-denial-time=0s", "--graceful-shutdown-timeout=10s",
	}
	f.driver = newDriver(t, "127.0.0.1:"+f.port, f.ca.file, f.ca.sign(t, f.dir, "autoscaler"))
	command := ccm.NewCommand()
	command.SetArgs(f.args)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	f.stop, f.ended = cancel, make(chan error, 1)
	go func() { f.ended <- command.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		f.end(t)
		for _, name := range []string{"m0", "m1"} {
			if err := admin.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	})
	return f, service
}

// grantRecord gives the manager's account the right to the record of what sleeps, until the test ends.
func grantRecord(t *testing.T) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "mooring-node-groups"}
	rule := func(names []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: names, Verbs: verbs}
	}
	roles, bindings := admin.RbacV1().Roles(meta.Namespace), admin.RbacV1().RoleBindings(meta.Namespace)
	_, err := roles.Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		rule(nil, "create"), rule([]string{config.DefaultNodeGroupLeaseName}, "get", "update"),
	}}, metav1.CreateOptions{})
	must(t, err)
	_, err = bindings.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: meta.Namespace, Name: "cloud-controller-manager"}},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		must(t, errors.Join(bindings.Delete(ctx, meta.Name, metav1.DeleteOptions{}), roles.Delete(ctx, meta.Name, metav1.DeleteOptions{}),
			admin.CoordinationV1().Leases(meta.Namespace).Delete(ctx, config.DefaultNodeGroupLeaseName, metav1.DeleteOptions{})))
	})
}

// TestRackSleepsAndWakes plays the circle with machines: the autoscaler removes a node, whose machine is shut down by its BMC and whose node
// goes; it asks for one more, and the machine that was off for longer is turned on, joins, and is one of the group.
func TestRackSleepsAndWakes(t *testing.T) {
	f, service := newRack(t)
	powered := func(name, want string) {
		t.Helper()
		eventually(t, name+" is "+want, func(context.Context) error {
			if power := service.Power(name); power != want {
				return errors.New(power)
			}
			return nil
		})
	}
	f.round("one machine is awake", sizes(map[string]int{rack: 1}))
	f.register(t, "m0")
	must(t, f.scaleDown("m0"))
	f.round("the size is lowered at once", sizes(map[string]int{rack: 0}))
	powered("m0", redfishsim.Off)
	eventually(t, "node m0 is gone", func(ctx context.Context) error {
		node, err := admin.CoreV1().Nodes().Get(ctx, "m0", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		must(t, err)
		for i := range node.Status.Conditions { // as kube-controller-manager does
			if node.Status.Conditions[i].Type == corev1.NodeReady {
				node.Status.Conditions[i].Status = corev1.ConditionUnknown
			}
		}
		_, err = admin.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return fmt.Errorf("it is there with the taints %v: %v", node.Spec.Taints, err)
	})
	asleep := f.round("nothing is awake", func(r *round) error {
		if len(r.instances[rack]) != 0 {
			return fmt.Errorf("the instances are %v", r.instances[rack])
		}
		return sizes(map[string]int{rack: 0})(r)
	})
	if template := asleep.templates[rack]; template == nil || template.Status.Allocatable.Cpu().Value() != 4 {
		t.Errorf("the template is %v", template)
	}
	must(t, f.scaleUp(rack, 1))
	powered("m1", redfishsim.On)
	f.register(t, "m1")
	f.round("the machine that was off for longer runs", func(r *round) error {
		running := externalgrpc.InstanceStatus_instanceRunning
		if len(r.instances[rack]) != 1 || r.instances[rack][0].GetStatus().GetInstanceState() != running {
			return fmt.Errorf("the instances are %v", r.instances[rack])
		}
		return sizes(map[string]int{rack: 1})(r)
	})
	if service.Power("m0") != redfishsim.Off {
		t.Error("m0 was turned on, too")
	}
}
