package autoscaler

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/ccm"
)

// TestAutoscalerFlags are checked with the files that they name, all at once, and only if the controller runs.
func TestAutoscalerFlags(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"no.crt", "no.key", "no-ca.crt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("nothing\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	on := []string{"--cloud-provider=sim", "--cloud-config=x", "--controllers=*,cluster-autoscaler-provider"}
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"nothing given": {on, []string{"--autoscaler-tls-cert-file: Required", "--autoscaler-tls-private-key-file: Required", "--autoscaler-client-ca-file: Required"}},
		"files that are not there": {append(on, "--autoscaler-tls-cert-file=/none/a", "--autoscaler-tls-private-key-file=/none/b", "--autoscaler-client-ca-file=/none/c"),
			[]string{"certificate: open /none/a", "private key: open /none/b", "client CA: open /none/c"}},
		"files that are something else": {append(on, "--autoscaler-tls-cert-file="+dir+"/no.crt", "--autoscaler-tls-private-key-file="+dir+"/no.key", "--autoscaler-client-ca-file="+dir+"/no-ca.crt"),
			[]string{"no.key are no certificate with its private key", "no-ca.crt has no certificate in PEM"}},
		"values": {append(on, "--autoscaler-bind-address=host", "--autoscaler-port=0", "--autoscaler-load-balancer-wait=-1s"),
			[]string{`--autoscaler-bind-address: Invalid value: "host"`, "--autoscaler-port: Invalid value: 0", "--autoscaler-load-balancer-wait"}},
		"the secure port": {append(on, "--secure-port=8086"), []string{"--autoscaler-port: Invalid value: 8086: is the port of --secure-port, too"}},
		"not at all":      {[]string{"--cloud-provider=sim", "--cloud-config=x", "--autoscaler-port=0", "--kubeconfig=/none/kubeconfig"}, []string{"/none/kubeconfig"}},
	} {
		t.Run(name, func(t *testing.T) {
			command := ccm.NewCommand(ccm.WithController(Controller()), ccm.WithProvider("sim", func(context.Context, ccm.ProviderEnvironment) (cloudprovider.Interface, error) {
				return nil, nil
			}))
			command.SetArgs(c.args)
			err := command.ExecuteContext(t.Context())
			if err == nil {
				t.Fatal("there is no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
			if name == "not at all" && strings.Contains(err.Error(), "autoscaler") {
				t.Errorf("flags of a controller that does not run: %v", err)
			}
		})
	}
}
