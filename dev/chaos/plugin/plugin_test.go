package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/chaos/misbehavior"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// hasQuirks returns what sets the quirks of the plugin.
func hasQuirks(t *testing.T) func(quirks ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "quirks")
	t.Setenv(misbehavior.QuirksFile, file)
	return func(quirks ...string) {
		if err := misbehavior.WriteQuirks(file, quirks); err != nil {
			t.Fatal(err)
		}
	}
}

// The plugin has the quirks that are written, and those only.
func TestQuirksComeAndGo(t *testing.T) {
	set := hasQuirks(t)
	if has(misbehavior.NoIP) {
		t.Error("there is a quirk before there is a file")
	}
	set(misbehavior.NoIP, misbehavior.Terse)
	if !has(misbehavior.NoIP) || !has(misbehavior.Terse) || has(misbehavior.Deaf) {
		t.Errorf("it has %q", misbehavior.ReadQuirks(os.Getenv(misbehavior.QuirksFile)))
	}
	set()
	if has(misbehavior.NoIP) {
		t.Error("the quirk does not end")
	}
}

var metadata = cloudprovider.InstanceMetadata{
	ProviderID: sim.ProviderID("i-1"), InstanceType: "small", Zone: "z", Region: "r", AdditionalLabels: map[string]string{"a": "1", "b": "2"},
	NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "n-1"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
}

// cloud answers for every node with the same metadata or error.
type cloud struct {
	cloudprovider.Interface
	instances
	balancers
	err error
}

type (
	instances = cloudprovider.InstancesV2
	balancers = cloudprovider.LoadBalancer
)

func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, true }

func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c, true }

func (c *cloud) Routes() (cloudprovider.Routes, bool) { return nil, false }

func (c *cloud) Capabilities() provider.Capabilities {
	return provider.Capabilities{ListInstances: func(_ context.Context, yield func([]provider.Instance) error) error {
		return yield([]provider.Instance{{NodeName: "n-1", InstanceMetadata: metadata}})
	}}
}

func (c *cloud) InstanceMetadata(context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	right := metadata
	return &right, c.err
}

func (c *cloud) EnsureLoadBalancer(context.Context, string, *corev1.Service, []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	return &corev1.LoadBalancerStatus{}, nil
}

// ask returns what the plugin says of a node, by itself and in a list.
func ask(t *testing.T, node *corev1.Node) (single cloudprovider.InstanceMetadata, listed []provider.Instance) {
	t.Helper()
	p := wrap(&cloud{})
	got, err := p.InstanceMetadata(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Capabilities().ListInstances(t.Context(), func(page []provider.Instance) error {
		listed = append(listed, page...)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return *got, listed
}

func TestDescriptions(t *testing.T) {
	set := hasQuirks(t)
	for quirk, changed := range map[string]func(cloudprovider.InstanceMetadata) bool{
		misbehavior.AddressesTwice: func(m cloudprovider.InstanceMetadata) bool { return len(m.NodeAddresses) == 4 },
		misbehavior.NoIP: func(m cloudprovider.InstanceMetadata) bool {
			return slices.Equal(m.NodeAddresses, metadata.NodeAddresses[:1])
		},
		misbehavior.BadType:    func(m cloudprovider.InstanceMetadata) bool { return m.InstanceType == badType },
		misbehavior.SchemeOnly: func(m cloudprovider.InstanceMetadata) bool { return m.ProviderID == "sim://" },
	} {
		set(quirk)
		if single, listed := ask(t, &corev1.Node{}); !changed(single) || len(listed) != 1 || !changed(listed[0].InstanceMetadata) {
			t.Errorf("%s: %+v, listed %+v", quirk, single, listed)
		}
		set()
		if single, listed := ask(t, &corev1.Node{}); changed(single) || changed(listed[0].InstanceMetadata) {
			t.Errorf("%s is there although it is not asked for: %+v, listed %+v", quirk, single, listed)
		}
	}
	set(misbehavior.Namesakes)
	if _, listed := ask(t, &corev1.Node{}); len(listed) != 2 || listed[0].NodeName != listed[1].NodeName || listed[0].ProviderID == listed[1].ProviderID {
		t.Errorf("no namesakes: %+v", listed)
	}
	set(misbehavior.Terse)
	terse, _ := ask(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelInstanceTypeStable: "small", "a": "1"}}})
	if terse.InstanceType != "" || terse.Zone != "z" || len(terse.AdditionalLabels) != 1 || len(metadata.AdditionalLabels) != 2 {
		t.Errorf("it leaves out the wrong labels: %+v", terse)
	}
}

// An instance that is gone is described as it was, denied, or described by nothing.
func TestGoneInstances(t *testing.T) {
	set, there := hasQuirks(t), &cloud{}
	p := wrap(there)
	asked := func(name string) (*cloudprovider.InstanceMetadata, error) {
		return p.InstanceMetadata(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	set(misbehavior.NoMetadata, misbehavior.Ghosts)
	if got, err := asked("n-1"); got != nil || err != nil {
		t.Errorf("without metadata: %v, %v", got, err)
	}
	there.err = cloudprovider.InstanceNotFound
	if got, err := asked("n-1"); err != nil || got.ProviderID != metadata.ProviderID {
		t.Errorf("a ghost: %v, %v", got, err)
	}
	set(misbehavior.Denies)
	there.err = nil
	denials := 0
	for i := range 30 {
		if _, err := asked(fmt.Sprint("n-", i)); errors.Is(err, cloudprovider.InstanceNotFound) {
			denials++
		}
	}
	if denials == 0 || denials == 30 {
		t.Errorf("%d of 30 nodes are denied", denials)
	}
}

// What is done in each call.
func TestCalls(t *testing.T) {
	set := hasQuirks(t)
	p := wrap(&cloud{err: provider.NotFound(errors.New("gone"))})
	fails := func() error {
		_, err := p.InstanceMetadata(t.Context(), &corev1.Node{})
		return err
	}
	if err := fails(); !errors.Is(err, cloudprovider.InstanceNotFound) {
		t.Errorf("without quirks: %v", err)
	}
	set(misbehavior.Untyped)
	if err := fails(); err == nil || errors.Is(err, cloudprovider.InstanceNotFound) {
		t.Errorf("the error has its type: %v", err)
	}
	set(misbehavior.Words)
	if err := fails(); err == nil || errors.Is(err, cloudprovider.InstanceNotFound) {
		t.Errorf("the call is made: %v", err)
	}
	set(misbehavior.Deaf)
	ended := make(chan error)
	go func() { ended <- fails() }()
	select {
	case <-ended:
		t.Fatal("the call does not hang")
	case <-time.After(2 * deafPause):
	}
	set()
	if err := <-ended; !errors.Is(err, cloudprovider.InstanceNotFound) {
		t.Errorf("after it hung: %v", err)
	}
}

// The plugin panics and ends goroutines where the cloud asks for it.
func TestObeys(t *testing.T) {
	hasQuirks(t)
	ended := make(chan any)
	ask := func(status int) any {
		go func() {
			defer func() { ended <- recover() }()
			_, err := wrap(&cloud{err: &api.Error{Status: status}}).InstanceMetadata(t.Context(), &corev1.Node{})
			t.Errorf("status %d: the call returns %v", status, err)
		}()
		return <-ended
	}
	if got := ask(misbehavior.StatusPanic); got == nil {
		t.Error("it does not panic")
	}
	if got := ask(misbehavior.StatusGoexit); got != nil {
		t.Errorf("it panics: %v", got)
	}
}

// The plugin writes into what it is given, and fails as a whole for one node.
func TestAtAllTimes(t *testing.T) {
	hasQuirks(t)
	p := wrap(&cloud{})
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{UID: types.UID("u")}}
	ensure := func(providerIDs ...string) error {
		var nodes []*corev1.Node
		for _, id := range providerIDs {
			nodes = append(nodes, &corev1.Node{Spec: corev1.NodeSpec{ProviderID: id}})
		}
		_, err := p.EnsureLoadBalancer(t.Context(), "", service, nodes)
		return err
	}
	if err := ensure("sim://i-1"); err != nil || len(service.Annotations) != 1 {
		t.Errorf("annotations %v, error %v", service.Annotations, err)
	}
	if err := ensure("sim://i-1", "another://i-1"); err == nil {
		t.Error("a node of another cloud is taken")
	}
}
