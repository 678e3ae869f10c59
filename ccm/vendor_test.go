package ccm_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/localcluster/poll"
)

// buildVendorProgram compiles examples/vendor, which is a module of its own.
func buildVendorProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "mycloud-ccm")
	command := exec.CommandContext(t.Context(), "go", "build", raceFlag, "-o", program, ".")
	command.Dir = "../examples/vendor"
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("building examples/vendor: %v\n%s", err, output)
	}
	return program
}

func isUninitialized(taint corev1.Taint) bool {
	return taint.Key == cloudproviderapi.TaintExternalCloudProvider
}

// TestVendorProgram builds the program of a vendor and runs it with its plugin and its own controller.
func TestVendorProgram(t *testing.T) {
	path := buildVendorProgram(t)
	cluster, kubeconfig := controlPlane(t)
	r := newReplicas(t, cluster, kubeconfig)
	config := filepath.Join(t.TempDir(), "mycloud.json")
	machines := `{"region": "north", "machines": [{"name": "crane", "rack": "r7", "type": "m1", "address": "10.1.2.3"}]}`
	if err := os.WriteFile(config, []byte(machines), 0o600); err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "crane"},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule},
		}},
	}
	if _, err := r.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.client.CoreV1().Nodes().Delete(cleanUp(t), "crane", metav1.DeleteOptions{}) })
	port := localclustertest.FreePort(t)
	args := []string{"--cloud-provider=mycloud", "--cloud-config=" + config, "--kubeconfig=" + kubeconfig, "--secure-port=" + port,
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig}

	t.Run("its own flag is validated", func(t *testing.T) {
		p := run(t, path, append(args, "--rack-label=not a label")...)
		if code := p.wait(t); code != 1 || !strings.HasPrefix(p.errorLines(), `invalid flags: --rack-label "not a label": `) {
			t.Errorf("exit code %d, error %q", code, p.errorLines())
		}
	})
	t.Run("its controllers run", func(t *testing.T) {
		p := run(t, path, append(args, "--controllers=cloud-node,racks", "--rack-label=harbor.example.com/rack")...)
		poll.Until(t, "the node is initialized and labeled", func(ctx context.Context) error {
			got, err := r.client.CoreV1().Nodes().Get(ctx, "crane", metav1.GetOptions{})
			if err != nil || got.Spec.ProviderID != "mycloud://r7/crane" || slices.ContainsFunc(got.Spec.Taints, isUninitialized) ||
				got.Labels["harbor.example.com/rack"] != "r7" || got.Labels[corev1.LabelTopologyRegion] != "north" {
				return fmt.Errorf("%+v %v %v", got.Spec, got.Labels, err)
			}
			return nil
		})
		secure := newEndpoint(t, port)
		secure.await(t, "/readyz", http.StatusOK)
		for _, path := range []string{"/readyz?verbose", "/livez?verbose"} {
			if _, body, err := secure.get(t, path, ""); err != nil || !strings.Contains(body, "[+]rack-label-controller ok") ||
				!strings.Contains(body, "[+]cloud-node-controller ok") {
				t.Errorf("%s does not show each controller: %v\n%s", path, err, body)
			}
		}
		p.signal(t, syscall.SIGTERM)
		if code := p.wait(t); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
	})
	t.Run("a controller may be left out", func(t *testing.T) {
		p := run(t, path, append(args, "--controllers=*,-racks")...)
		p.awaitOutput(t, `"Starting" program="example.com/mycloud-ccm@`)
		p.awaitOutput(t, `controllers=["cloud-node-controller","cloud-node-lifecycle-controller","node-route-controller","service-lb-controller"]`)
	})
}
