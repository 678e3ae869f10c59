package instances_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

// A listing shows what the cloud shows now, whatever it has in common with the listing before.
func TestAListingShowsWhatHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newListingCloud("same", "changed", "gone", "renamed")
		cloud.pageSize = 2
		inv := instances.New(instances.Options{Cloud: cloud})
		lookup(t, inv, node("same"), 0)

		cloud.change("sim://changed", func(i *provider.Instance) { i.NodeAddresses = []corev1.NodeAddress{{Address: "192.0.2.1"}} })
		cloud.change("sim://renamed", func(i *provider.Instance) { i.NodeName = "other" })
		cloud.remove("sim://gone")
		cloud.add("new")
		for _, want := range []struct {
			node       string
			providerID string
			addresses  int
		}{
			{"same", "sim://same", 0},
			{"changed", "sim://changed", 1},
			{"gone", "", 0},
			{"renamed", "", 0},
			{"other", "sim://renamed", 0},
			{"new", "sim://new", 0},
		} {
			got := lookup(t, inv, node(want.node), 0)
			if got.Metadata.ProviderID != want.providerID || len(got.Metadata.NodeAddresses) != want.addresses || got.Listed != 4 {
				t.Errorf("%s: %+v of %d, want %q with %d addresses", want.node, got.Metadata, got.Listed, want.providerID, want.addresses)
			}
		}
	})
}

// Of what the cloud lists again unchanged, one listing after the other, nothing new is kept.
func TestAListingOfNothingNewCostsNoMemory(t *testing.T) {
	bulk := newBulk(500)
	inv := instances.New(instances.Options{Cloud: bulk})
	list := func() { bulk.lookup(t, inv) }
	list()
	if got := testing.AllocsPerRun(20, list); got > 60 {
		t.Errorf("%.0f allocations for a listing of 500 instances that are known, want a few for the call itself", got)
	}
}

// A page may be used again by the provider after it was handed over.
func TestWhatIsKeptIsACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		labels, addresses := map[string]string{"rack": "r1"}, []corev1.NodeAddress{{Address: "192.0.2.1"}}
		instance := instanceFor("a")
		instance.AdditionalLabels, instance.NodeAddresses = labels, addresses
		inv := instances.New(instances.Options{Cloud: &fixedList{listed: []provider.Instance{instance}}})
		before := lookup(t, inv, node("a"), 0)
		time.Sleep(time.Second)
		labels["rack"], addresses[0].Address = "r2", "192.0.2.2"
		if before.Metadata.AdditionalLabels["rack"] != "r1" || before.Metadata.NodeAddresses[0].Address != "192.0.2.1" {
			t.Errorf("the answer is now %+v", before.Metadata)
		}
		if after := lookup(t, inv, node("a"), 0); after.Metadata.AdditionalLabels["rack"] != "r2" {
			t.Errorf("the next answer is %+v", after.Metadata)
		}
	})
}

// bulk is a cloud of many instances that lists them in no time and without allocations of its own.
type bulk struct {
	*listingCloud
	listed []provider.Instance
}

func newBulk(count int) *bulk {
	b := &bulk{}
	for i := range count {
		b.listed = append(b.listed, provider.Instance{
			NodeName: types.NodeName(fmt.Sprintf("node-%d", i)), State: provider.InstanceRunning,
			InstanceMetadata: cloudprovider.InstanceMetadata{
				ProviderID: fmt.Sprintf("sim://i-%08d", i), InstanceType: "sim.small", Zone: fmt.Sprintf("sim-1%c", 'a'+i%3), Region: "sim-1",
				NodeAddresses: []corev1.NodeAddress{
					{Type: corev1.NodeHostName, Address: fmt.Sprintf("node-%d", i)},
					{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.%d.%d", i/250, i%250)},
				},
				AdditionalLabels: map[string]string{"rack": fmt.Sprintf("r%d", i%40)},
			},
		})
	}
	return b
}

func (b *bulk) Capabilities() provider.Capabilities {
	return provider.Capabilities{ListInstances: func(_ context.Context, yield func([]provider.Instance) error) error {
		for from := 0; from < len(b.listed); from += 500 {
			if err := yield(b.listed[from:min(from+500, len(b.listed))]); err != nil {
				return err
			}
		}
		return nil
	}}
}

func (b *bulk) lookup(t testing.TB, inv *instances.Inventory) {
	asked := nodeWithID("node-0", "sim://i-00000000")
	if observation, err := inv.Lookup(t.Context(), asked, 0); err != nil || observation.Status != instances.Found {
		t.Fatalf("%s, error %v", observation.Status, err)
	}
}

func BenchmarkListing(b *testing.B) {
	for _, changed := range []int{0, 50, 5000} {
		b.Run(fmt.Sprintf("5000 instances, %d changed", changed), func(b *testing.B) {
			bulk := newBulk(5000)
			inv := instances.New(instances.Options{Cloud: bulk})
			bulk.lookup(b, inv)
			b.ReportAllocs()
			for b.Loop() {
				for i := range changed {
					bulk.listed[i].State = provider.InstanceStopped - bulk.listed[i].State + provider.InstanceRunning
				}
				bulk.lookup(b, inv)
			}
		})
	}
}
