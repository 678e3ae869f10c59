package ccm

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/version"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// answeringServer is an API server that says its version.
type answeringServer struct {
	version string
	err     error
}

func (s answeringServer) ServerVersion() (*apiversion.Info, error) {
	return &apiversion.Info{GitVersion: s.version}, s.err
}

func TestNewerAPIServersAreKnown(t *testing.T) {
	for name, test := range map[string]struct {
		server, libraries string
		newer             bool
		complains         string
	}{
		"the same":         {"v1.37.2", "v1.37.2", false, ""},
		"older":            {"v1.34.4", "v1.37.2", false, ""},
		"patch is newer":   {"v1.37.9", "v1.37.2", false, ""},
		"newer":            {"v1.38.0-alpha.1", "v1.37.2", true, ""},
		"of a distributor": {"v1.38.1-gke.100+x", "v1.37.2", true, ""},
		"next major":       {"v2.0.0", "v1.37.2", true, ""},
		"says nonsense":    {"latest", "v1.37.2", false, `"latest"`},
		"built by an unknown toolchain": {
			"v1.37.2", "unknown", false, `"unknown"`,
		},
	} {
		newer, err := newerThan(answeringServer{version: test.server}, test.libraries)
		if newer != test.newer || (err != nil) != (test.complains != "") || err != nil && !strings.Contains(err.Error(), test.complains) {
			t.Errorf("%s: newer %t, error %v", name, newer, err)
		}
	}
}

// Only a node that waits is whole in the cache, and only while we know all fields that the API server has. An error says nothing.
func TestWholeNodesAreThoseThatWait(t *testing.T) {
	joined := kept()
	waiting := kept()
	waiting.Spec.Taints = append(waiting.Spec.Taints, corev1.Taint{Key: cloudproviderapi.TaintExternalCloudProvider, Effect: corev1.TaintEffectNoSchedule})
	waiting.Status.Images = []corev1.ContainerImage{{Names: []string{"registry.example.com/pause:1"}, SizeBytes: 1}}
	cached := waiting.DeepCopy()
	cached.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	if trimmed, err := trimNode(cached); err != nil || !cmp.Equal(trimmed, any(waiting)) {
		t.Errorf("of a node that waits the cache leaves out (-want +got), %v:\n%s", err, cmp.Diff(any(waiting), trimmed))
	}
	for name, test := range map[string]struct {
		server answeringServer
		holds  bool
	}{
		"no newer": {answeringServer{version: "v1.2.3"}, true}, "newer": {answeringServer{version: "v9.9.9"}, false},
		"no answer": {answeringServer{err: errors.New("away")}, false},
	} {
		whole := &wholeNodes{server: test.server, libraries: "v1.37.2"}
		if whole.holds(waiting) {
			t.Errorf("%s: a node is held for whole before anybody has asked", name)
		}
		whole.compare(t.Context())
		if whole.holds(waiting) != test.holds || whole.holds(joined) {
			t.Errorf("%s: held for whole: the one that waits %t, the other %t", name, whole.holds(waiting), whole.holds(joined))
		}
	}
}
