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

	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/poll"
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
	localclustertest.Needed(t)
	path := buildVendorProgram(t)
	cluster, kubeconfig := controlPlane(t)
	r := newReplicas(t, cluster, kubeconfig)
	config := filepath.Join(t.TempDir(), "mycloud.json")
	machines := `{"region": "north", "machines": [{"name": "crane", "rack": "r7", "type": "m1", "address": "10.1.2.3"}]}`
	if err := os.WriteFile(config, []byte(machines), 0o600); err != nil {
		t.Fatal(err)
	}
	node := nodeagent.Node(nodeagent.Options{Name: "crane"})
	if _, err := r.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.client.CoreV1().Nodes().Delete(cleanUp(t), "crane", metav1.DeleteOptions{}) })
	port := localclustertest.FreePort(t)
	args := []string{"--cloud-config=" + config, "--kubeconfig=" + kubeconfig, "--secure-port=" + port,
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
		p.awaitOutput(t, `program="example.com/mycloud-ccm@`)
		p.awaitOutput(t, `controllers=["cloud-node-controller","cloud-node-lifecycle-controller","service-lb-controller"]`)
		p.awaitOutput(t, `provider="mycloud"`) // by the program's own default
	})
	vendorsOwn(t, path, args)
}

// vendorsOwn looks at what the program has that no other has: flags and defaults of its own, a controller for its own provider, and no
// route controller.
func vendorsOwn(t *testing.T, path string, args []string) {
	t.Helper()
	t.Run("its help has a section of its own, and its defaults", func(t *testing.T) {
		p := run(t, path, "--help")
		if code := p.wait(t); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
		for _, want := range []string{"\nMycloud flags:\n", "--mycloud-zone-suffix", `(default "mycloud")`, "All controllers: cloud-node-controller, " +
			"cloud-node-lifecycle-controller, kubelet-serving-certificate, node-route-controller, rack-label-controller, service-lb-controller, " +
			"tagging-controller", "Disabled-by-default controllers: kubelet-serving-certificate, tagging-controller"} {
			if help := strings.Join(strings.Fields(p.Output()), " "); !strings.Contains(p.Output(), want) && !strings.Contains(help, want) {
				t.Errorf("the help does not say %q", want)
			}
		}
	})
	for name, test := range map[string]startUpError{
		"flags of the provider and of a controller are validated at once": {
			[]string{"--mycloud-zone-suffix=1", "--webhooks=nodes"},
			"invalid flags:\n" + `  --webhooks[0]: Invalid value: "nodes": this program serves no webhooks; a controller of the program's own can, ` +
				"on a port of its own, by its Manager's GetWebhookServer\n" + `  --mycloud-zone-suffix "1": must begin with a dash`,
		},
		"a controller that was removed is named": {
			[]string{"--controllers=route"}, "--controllers names node-route-controller, which this build does not contain; it contains " +
				"cloud-node-controller, cloud-node-lifecycle-controller, kubelet-serving-certificate, rack-label-controller, service-lb-controller, " +
				"tagging-controller",
		},
		"another provider": {
			[]string{"--cloud-provider=aws"}, `invalid flags: --cloud-provider: Invalid value: "aws": unknown provider; this program has mycloud`,
		},
		"the provider's constructor fails": {
			[]string{"--cloud-config="}, `cloud provider "mycloud": --cloud-config is required`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := run(t, path, append(args, test.args...)...)
			if code := p.wait(t); code != 1 || p.errorLines() != test.want {
				t.Errorf("exit code %d, error\n%s\nwant 1,\n%s", code, p.errorLines(), test.want)
			}
		})
	}
	t.Run("its controller has the provider itself, and the informers", func(t *testing.T) {
		p := run(t, path, append(args, "--controllers=*,tagging")...)
		p.awaitOutput(t, `"Tagged the instance"`)
		if want := `node="crane" nodes=1`; !strings.Contains(p.Output(), want) {
			t.Errorf("the lister that the provider was built with is empty: want %s", want)
		}
		p.signal(t, syscall.SIGTERM)
		if code := p.wait(t); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
	})
	t.Run("a dry run is without that controller", func(t *testing.T) {
		p := run(t, path, append(args, "--controllers=*,tagging", "--dry-run")...)
		p.awaitOutput(t, `provider \"mycloud\" itself: not under --dry-run`)
		p.awaitOutput(t, `"Initialized the cloud provider"`)
		p.signal(t, syscall.SIGTERM)
		if code := p.wait(t); code != 0 || strings.Contains(p.Output(), "Tagged the instance") {
			t.Errorf("exit code %d, want 0 and nothing tagged", code)
		}
	})
}
