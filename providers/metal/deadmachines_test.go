package metal

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mooring-ccm/mooring/dev/bmc/redfishsim"
	"github.com/mooring-ccm/mooring/dev/bmc/redfishtest"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// oneClient is the client builder of a provider with one identity.
type oneClient struct{ config *rest.Config }

func (o oneClient) Config(string) (*rest.Config, error) { return o.config, nil }
func (o oneClient) ConfigOrDie(string) *rest.Config     { return o.config }
func (o oneClient) Client(string) (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(o.config)
}
func (o oneClient) ClientOrDie(string) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(o.config)
}

// A kubelet registers a node afresh, says that it is the machine of the control plane, by its system UUID or its provider ID, and that it is
// silent. The machine of the node cp-1, which is ready, keeps its power, and an event says why.
func TestAKubeletTurnsOffNoOtherMachine(t *testing.T) {
	cluster := localclustertest.Start(t)
	admin := kubernetes.NewForConfigOrDie(cluster.AdminConfig())
	uuids, machines := map[string]string{}, ""
	service := redfishsim.New("admin", "secret")
	url, ca := redfishtest.Start(t, service)
	for i, name := range []string{"cp-1", "db-1", "n-3"} {
		uuids[name] = fmt.Sprintf("4c4c4544-0051-3510-8052-b4c04f4e353%d", i)
		service.SetPower(name, redfishsim.On)
		service.SetUUID(name, uuids[name])
		machines += fmt.Sprintf("  - {name: %s, systemUUID: %s, addresses: [{address: 10.0.0.%d}], bmc: {redfish: {endpoint: %q, systemID: %s}}}\n",
			name, uuids[name], i+1, url, name)
		created, err := admin.CoreV1().Nodes().Create(t.Context(), &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.NodeSpec{ProviderID: "metal://" + uuids[name]},
		}, metav1.CreateOptions{})
		must.NoError(t, err)
		created.Status.NodeInfo.SystemUUID = uuids[name]
		created.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
		_, err = admin.CoreV1().Nodes().UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
		must.NoError(t, err)
	}
	dir := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(dir, "password"), []byte("secret"), 0o600))
	must.NoError(t, os.WriteFile(filepath.Join(dir, "c.yaml"), fmt.Appendf(nil, `apiVersion: %s
kind: %s
power:
  interval: 1s
  outOfService: {enabled: true, fence: {enabled: true, after: 30s, interval: 10s, outsideCluster: true}}
inventory:
  defaults: {bmc: {credentials: {username: admin, passwordFile: password}, caFile: %s}}
  machines:
%s`, config.APIVersion, config.CloudConfigKind, ca, machines), 0o600))
	source, err := config.OpenFile(filepath.Join(dir, "c.yaml"))
	must.NoError(t, err)
	cloud, err := New(source)
	must.NoError(t, err)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	cloud.Initialize(oneClient{cluster.AdminConfig()}, stop)

	for name, spec := range map[string]v1.NodeSpec{"worker-7": {}, "worker-8": {ProviderID: "metal://" + uuids["cp-1"]}} {
		credential, err := cluster.UserConfig("system:node:"+name, "system:nodes")
		must.NoError(t, err)
		evil := kubernetes.NewForConfigOrDie(credential)
		_, err = evil.CoreV1().Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
		must.NoError(t, err)
		patch, err := json.Marshal(map[string]any{"status": map[string]any{
			"nodeInfo":   map[string]any{"systemUUID": uuids["cp-1"]},
			"conditions": []any{map[string]any{"type": "Ready", "status": "Unknown", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}},
		}})
		must.NoError(t, err)
		_, err = evil.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		must.NoError(t, err)
	}
	for _, name := range []string{"worker-7", "worker-8"} {
		poll.Within(t, 2*time.Minute, "an event says why its machine keeps its power", func(ctx context.Context) error {
			if service.Power("cp-1") == redfishsim.Off {
				t.Fatal("the machine of the control plane was turned off")
			}
			events, err := admin.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "reason=FencingHeld,involvedObject.name=" + name})
			if err != nil {
				return err
			}
			for i := range events.Items {
				if strings.Contains(events.Items[i].Message, "its machine is not proven") {
					return nil
				}
			}
			return fmt.Errorf("%d other events", len(events.Items))
		})
	}
}
