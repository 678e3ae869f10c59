package instances_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

// legacyCloud is a plugin of the days before InstancesV2. A nil function is not implemented.
type legacyCloud struct {
	cloudprovider.Interface
	offered  bool
	zoned    bool
	id       func(name string) (string, error)
	byID     func(what, id string) (string, error)
	byName   func(what, name string) (string, error)
	requests []string
}

func (c *legacyCloud) ProviderName() string                           { return "old" }
func (c *legacyCloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }
func (c *legacyCloud) Instances() (cloudprovider.Instances, bool) {
	return legacyInstances{cloud: c}, c.offered
}
func (c *legacyCloud) Zones() (cloudprovider.Zones, bool) { return legacyZones{cloud: c}, c.zoned }

func (c *legacyCloud) answer(kind, what, key string, says func(string, string) (string, error)) (string, error) {
	c.requests = append(c.requests, what+" by "+kind)
	if says == nil {
		return "", provider.ErrNotImplemented
	}
	return says(what, key)
}

type legacyInstances struct {
	cloudprovider.Instances
	cloud *legacyCloud
}

func (i legacyInstances) InstanceID(_ context.Context, name types.NodeName) (string, error) {
	if i.cloud.id == nil {
		return "", provider.ErrNotImplemented
	}
	return i.cloud.id(string(name))
}

func (i legacyInstances) NodeAddressesByProviderID(_ context.Context, id string) ([]corev1.NodeAddress, error) {
	return addresses(i.cloud.answer("id", "addresses", id, i.cloud.byID))
}

func (i legacyInstances) NodeAddresses(_ context.Context, name types.NodeName) ([]corev1.NodeAddress, error) {
	return addresses(i.cloud.answer("name", "addresses", string(name), i.cloud.byName))
}

func addresses(ip string, err error) ([]corev1.NodeAddress, error) {
	if err != nil {
		return nil, err
	}
	return []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}, nil
}

func (i legacyInstances) InstanceTypeByProviderID(_ context.Context, id string) (string, error) {
	return i.cloud.answer("id", "type", id, i.cloud.byID)
}

func (i legacyInstances) InstanceType(_ context.Context, name types.NodeName) (string, error) {
	return i.cloud.answer("name", "type", string(name), i.cloud.byName)
}

type legacyZones struct {
	cloudprovider.Zones
	cloud *legacyCloud
}

func (z legacyZones) GetZoneByProviderID(_ context.Context, id string) (cloudprovider.Zone, error) {
	zone, err := z.cloud.answer("id", "zone", id, z.cloud.byID)
	return cloudprovider.Zone{FailureDomain: zone, Region: zone + "-region"}, err
}

func (z legacyZones) GetZoneByNodeName(_ context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	zone, err := z.cloud.answer("name", "zone", string(name), z.cloud.byName)
	return cloudprovider.Zone{FailureDomain: zone, Region: zone + "-region"}, err
}

func says(_, key string) (string, error)      { return "said of " + key, nil }
func notFound(string, string) (string, error) { return "", provider.ErrInstanceNotFound }
func isID(string) (string, error)             { return "12345", nil }

func metadataOf(providerID, key string, zoned bool) cloudprovider.InstanceMetadata {
	said := "said of " + key
	metadata := cloudprovider.InstanceMetadata{
		ProviderID: providerID, InstanceType: said, NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: said}},
	}
	if zoned {
		metadata.Zone, metadata.Region = said, said+"-region"
	}
	return metadata
}

// Upstream's TestGetInstanceMetadata with Instances, "provider ID not implemented" of its Test_syncNode, and the ways in
// which a lookup by ID and one by name can differ.
func TestWhatLegacyInstancesSay(t *testing.T) {
	outage := errors.New("connection refused")
	fails := func(string, string) (string, error) { return "", outage }
	known := nodeWithID("node0", "old://1")
	tests := []struct {
		name     string
		cloud    legacyCloud
		node     *corev1.Node
		found    cloudprovider.InstanceMetadata
		answered string
		notFound bool
		wantErr  error
	}{
		{
			name: "Instances and provider ID", cloud: legacyCloud{id: isID, byID: says}, node: node("node0"),
			found: metadataOf("old://12345", "old://12345", false), answered: "old://12345",
		},
		{
			name: "Instances and Zones", cloud: legacyCloud{id: isID, byID: says, zoned: true}, node: node("node0"),
			found: metadataOf("old://12345", "old://12345", true), answered: "old://12345",
		},
		{
			name: "providerID not implemented", cloud: legacyCloud{byName: says, zoned: true}, node: node("node0"),
			found: metadataOf("", "node0", true),
		},
		{
			name:  "providerID not implemented and node with providerID",
			cloud: legacyCloud{byID: says, byName: fails}, node: nodeWithID("node0", "old://asdasd"),
			found: metadataOf("old://asdasd", "old://asdasd", false), answered: "old://asdasd",
		},
		{
			name: "found by name only", cloud: legacyCloud{byID: fails, byName: says}, node: nodeWithID("node0", "other://1"),
			found: metadataOf("other://1", "node0", false),
		},
		{
			name: "no such instance when asked for its ID", node: node("node0"), notFound: true,
			cloud: legacyCloud{id: func(string) (string, error) { return "", provider.ErrInstanceNotFound }, byName: says},
		},
		{
			name: "no such instance, by ID and by name", cloud: legacyCloud{byID: notFound, byName: notFound}, node: known,
			notFound: true,
		},
		{name: "no such instance by ID, names not implemented", cloud: legacyCloud{byID: notFound}, node: known, notFound: true},
		{name: "no such instance by name, IDs not implemented", cloud: legacyCloud{byName: notFound}, node: known, notFound: true},
		{
			name: "no such instance by name, and no provider IDs", cloud: legacyCloud{byName: notFound}, node: node("node0"),
			notFound: true,
		},
		{
			name: "an outage by ID, no such instance by name", cloud: legacyCloud{byID: fails, byName: notFound}, node: known,
			wantErr: outage,
		},
		{
			name: "no such instance by ID, an outage by name", cloud: legacyCloud{byID: notFound, byName: fails}, node: known,
			wantErr: outage,
		},
		{
			name: "an outage when asked for its ID", node: node("node0"), wantErr: outage,
			cloud: legacyCloud{id: func(string) (string, error) { return "", outage }, byName: says},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.cloud.offered = true
				got, err := instances.New(instances.Options{Cloud: &test.cloud}).Lookup(t.Context(), test.node, 0)
				if !errors.Is(err, test.wantErr) || (err != nil) != (test.wantErr != nil) {
					t.Fatalf("error %v, want %v", err, test.wantErr)
				}
				if test.wantErr != nil {
					return
				}
				want := instances.Observation{Status: instances.Found, Metadata: test.found, Answered: test.answered}
				if test.notFound {
					want = instances.Observation{Status: instances.NotFound}
				}
				want.At, want.Listed = got.At, -1
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("observation (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestALegacyErrorNamesBothAttempts(t *testing.T) {
	cloud := &legacyCloud{
		offered: true,
		byID:    func(string, string) (string, error) { return "", errors.New("id broken") },
		byName:  func(string, string) (string, error) { return "", errors.New("name broken") },
	}
	synctest.Test(t, func(t *testing.T) {
		_, err := instances.New(instances.Options{Cloud: cloud}).Lookup(t.Context(), nodeWithID("node0", "old://1"), 0)
		for _, part := range []string{"id broken", "name broken", "node0", "old://1", "addresses"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("error %v does not name %q", err, part)
			}
		}
	})
}

// A refresh asks an older plugin for the addresses each time, and for type and zone once an hour. A node that waits for its
// initialization is asked for everything; what failed is asked for again.
func TestTypeAndZoneOfALegacyInstanceAreAskedForOnceAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		cloud := &legacyCloud{offered: true, zoned: true, byID: func(what, id string) (string, error) {
			if what == "zone" && down {
				return "", errors.New("connection refused")
			}
			return says(what, id)
		}}
		inv := instances.New(instances.Options{Cloud: cloud})
		known := nodeWithID("node0", "old://1")
		if _, err := inv.Lookup(t.Context(), known, 0); err == nil {
			t.Fatal("a zone that could not be asked for is no error")
		}
		down = false
		count := func() map[string]int {
			counts := map[string]int{}
			for _, request := range cloud.requests {
				counts[request]++
			}
			cloud.requests = nil
			return counts
		}
		count()
		want := metadataOf("old://1", "old://1", true)
		refresh := func() {
			t.Helper()
			got, err := inv.Lookup(t.Context(), known, 0)
			if diff := cmp.Diff(want, got.Metadata); err != nil || diff != "" {
				t.Errorf("error %v, metadata (-want +got):\n%s", err, diff)
			}
		}
		for range 24 { // the type is known from before
			refresh()
			time.Sleep(5 * time.Minute)
		}
		if got, want := fmt.Sprint(count()), "map[addresses by id:24 type by id:1 zone by id:2]"; got != want {
			t.Errorf("asked within two hours: %s, want %s", got, want)
		}
		waits := known.DeepCopy()
		waits.Spec.Taints = []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Effect: corev1.TaintEffectNoSchedule}}
		if _, err := inv.Lookup(t.Context(), waits, 0); err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(count()), "map[addresses by id:1 type by id:1 zone by id:1]"; got != want {
			t.Errorf("asked for a node that waits: %s, want %s", got, want)
		}
	})
}

// buildingCloud is an older plugin of which one call of an accessor panics, or never comes back.
type buildingCloud struct {
	*legacyCloud
	build func(accessor string)
}

func (c *buildingCloud) InstancesV2() (cloudprovider.InstancesV2, bool) {
	c.build("InstancesV2")
	return c.legacyCloud.InstancesV2()
}

func (c *buildingCloud) Instances() (cloudprovider.Instances, bool) {
	c.build("Instances")
	return c.legacyCloud.Instances()
}

func (c *buildingCloud) Zones() (cloudprovider.Zones, bool) {
	c.build("Zones")
	return c.legacyCloud.Zones()
}

func (c *buildingCloud) HasClusterID() bool { return true }

// A node of an older plugin is asked for again after one call of an accessor has panicked, whichever it was.
func TestAccessorsOfOlderPlugins(t *testing.T) {
	for _, wrong := range []string{"InstancesV2", "Instances", "Zones"} {
		for bad := range 6 {
			synctest.Test(t, func(t *testing.T) {
				calls := atomic.Int32{}
				plugin := &buildingCloud{legacyCloud: &legacyCloud{offered: true, zoned: true, id: isID, byID: says}, build: func(accessor string) {
					if accessor != wrong {
						return
					}
					if before := calls.Add(1) - 1; int(before) == bad {
						panic("nil client")
					}
				}}
				inv := instances.New(instances.Options{Cloud: cloud.Decorate(plugin, cloud.Options{})})
				if err := inv.Supported(); err != nil {
					t.Error(err)
				}
				n := nodeWithID("node0", "old://1")
				for range 4 {
					began := time.Now()
					if _, err := inv.Lookup(t.Context(), n, 0); time.Since(began) > 3*time.Minute {
						t.Errorf("error %v after %s", err, time.Since(began))
					}
				}
				began := time.Now()
				if got := lookup(t, inv, n, 0); got.Metadata.Zone != "said of old://1" || time.Since(began) > time.Second {
					t.Errorf("%+v after %s", got, time.Since(began))
				}
			})
		}
	}
}
