package ccm

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// instancesV2 is the interface under a name that a method does not have.
type instancesV2 = cloudprovider.InstancesV2

// knowingCloud knows the instances of some nodes, and says nothing about those without a name here.
type knowingCloud struct {
	cloudprovider.Interface
	instancesV2
	of map[string]string
}

func (knowingCloud) ProviderName() string                             { return "crane" }
func (knowingCloud) Instances() (cloudprovider.Instances, bool)       { return nil, false }
func (c knowingCloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, true }
func (c knowingCloud) InstanceMetadata(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	switch id, known := c.of[node.Name]; {
	case !known:
		return nil, nil
	case id == "":
		return nil, cloudprovider.InstanceNotFound
	default:
		return &cloudprovider.InstanceMetadata{ProviderID: id}, nil
	}
}

// TestInstances as controllers of vendors see them.
func TestInstances(t *testing.T) {
	inventory := instances.New(instances.Options{Cloud: knowingCloud{of: map[string]string{"there": "crane://1", "gone": ""}}})
	shared := sharedInstances{inventory, ownership.Rules{ProviderName: "crane", Schemes: []string{"crane"}}}
	node := func(name, id string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: id}}
	}
	if err := shared.Supported(); err != nil {
		t.Error(err)
	}
	found, err := shared.Lookup(t.Context(), node("there", ""), 0)
	if err != nil || !found.Exists || found.Answered != "crane://1" || found.Metadata.ProviderID != "crane://1" || found.At.IsZero() {
		t.Errorf("%+v, %v", found, err)
	}
	if gone, err := shared.Lookup(t.Context(), node("gone", ""), 0); err != nil || gone.Exists {
		t.Errorf("an instance that is gone: %+v, %v", gone, err)
	}
	if _, err := shared.Lookup(t.Context(), node("unknown", ""), 0); !errors.Is(err, errNoStatement) {
		t.Errorf("nothing was said, and the error is %v", err)
	}
	for id, foreign := range map[string]bool{"": false, "crane://1": false, "boom://1": true} {
		if got := shared.Foreign(node("there", id)); got != foreign {
			t.Errorf("a node with the provider ID %q is foreign: %v", id, got)
		}
	}
	if doubt := shared.Doubt(node("there", "crane://1"), found); doubt != "" {
		t.Errorf("there is a doubt about a node of this cloud: %s", doubt)
	}
	if doubt := shared.Doubt(node("there", ""), found); doubt == "" {
		t.Error("a node that has no provider ID and does not wait for one is ours because an instance has its name")
	}
}

// TestWhatIsCachedIsRestrictedOnce: a second controller would not see what the first one does not want.
func TestWhatIsCachedIsRestrictedOnce(t *testing.T) {
	of := func(object client.Object) Controller {
		return Controller{Name: "crane", Cached: map[client.Object]fields.Selector{object: fields.Everything()}}
	}
	for name, test := range map[string]struct {
		enabled []Controller
		fails   bool
	}{
		"one":              {[]Controller{of(&corev1.Pod{})}, false},
		"two types":        {[]Controller{of(&corev1.Pod{}), of(&corev1.Secret{})}, false},
		"the same type":    {[]Controller{of(&corev1.Pod{}), of(&corev1.Pod{})}, true},
		"what others read": {[]Controller{of(&corev1.Node{})}, true},
	} {
		if _, err := (&config{enabled: test.enabled}).cacheOptions(); (err != nil) != test.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
}
