package instances

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/instances/bounds"
	"github.com/mooring-ccm/mooring/provider"
)

// garbage are ways in which an instance of a listing is wrong. None of them makes the listing one that cannot be true.
var garbage = []func(i int, instance *provider.Instance){
	func(_ int, instance *provider.Instance) {
		instance.NodeName = types.NodeName(strings.Repeat("n", 64<<10))
	},
	func(_ int, instance *provider.Instance) { instance.NodeName = "shared" },
	func(_ int, instance *provider.Instance) { instance.NodeName = "\x1b[2J\u202e" },
	func(i int, instance *provider.Instance) { instance.ProviderID = fmt.Sprintf("no scheme %d", i) },
	func(i int, instance *provider.Instance) { instance.ProviderID = fmt.Sprintf("sim://\x00%d\xff", i) },
	func(i int, instance *provider.Instance) {
		instance.ProviderID = fmt.Sprintf("sim://%s%d", strings.Repeat("x", bounds.MaxProviderIDBytes-20), i)
	},
	func(_ int, instance *provider.Instance) {
		for _, address := range []string{"NaN", "", "999.0.0.1", "10.0.0.1/24", "fe80::1%eth0", "\x00", strings.Repeat("1", 64<<10)} {
			instance.NodeAddresses = append(instance.NodeAddresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
		}
	},
	func(_ int, instance *provider.Instance) {
		instance.NodeAddresses = make([]corev1.NodeAddress, 2000)
	},
	func(_ int, instance *provider.Instance) {
		instance.InstanceType, instance.Zone, instance.Region = "\x00", strings.Repeat("z", 64<<10), "NaN"
	},
	func(_ int, instance *provider.Instance) {
		instance.AdditionalLabels = map[string]string{"": "", "a b": "\n", strings.Repeat("k", 64<<10): strings.Repeat("v", 64<<10)}
	},
}

// garbageOf is the listing's instance of a number: each is wrong in its way, and wrong in the same way the next time.
func garbageOf(i int) provider.Instance {
	instance := provider.Instance{NodeName: types.NodeName(fmt.Sprint("node-", i)), InstanceMetadata: cloudprovider.InstanceMetadata{
		ProviderID: fmt.Sprintf("sim://i-%d", i), Zone: "a",
	}}
	garbage[i%len(garbage)](i, &instance)
	return instance
}

// TestTenThousandInstancesOfGarbage lists them again and again beside one that is healthy. What is kept is bounded, does not grow with listings,
// and answers for the healthy one; no node is called gone because of it.
func TestTenThousandInstancesOfGarbage(t *testing.T) {
	const instances, page = 10_000, 500
	healthy := provider.Instance{NodeName: "healthy", InstanceMetadata: cloudprovider.InstanceMetadata{ProviderID: "sim://healthy", Zone: "b"}}
	ids := make([]string, 0, instances)
	list := func(before *snapshot, number uint64) (*snapshot, int) {
		listing := newAssembly(before, number)
		for first := 0; first < instances; first += page {
			var listed []provider.Instance
			for i := range page {
				listed = append(listed, garbageOf(first+i))
				if number == 1 {
					ids = append(ids, listed[i].ProviderID)
				}
			}
			if err := listing.add(listed); err != nil {
				t.Fatal(err)
			}
		}
		if err := listing.add([]provider.Instance{healthy}); err != nil {
			t.Fatal(err)
		}
		return listing.finish(), len(listing.changed)
	}
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	before := heap()
	made, fresh := list(newSnapshot(0), 1)
	if fresh != instances+1 {
		t.Errorf("%d of %d are new at first", fresh, instances+1)
	}
	first := heap() - before
	// One in ten has a name of 64 KiB, one an ID of 4 KiB, one 257 addresses of a hundred bytes and one labels: 10 KiB of each, on average.
	if first > instances*12<<10 || made.bytes > instances*12<<10 {
		t.Errorf("%d KiB are kept of each instance, and %d counted", first/instances>>10, made.bytes/instances>>10)
	}
	for number := uint64(2); number < 4; number++ {
		if made, fresh = list(made, number); fresh != 0 {
			t.Errorf("in listing %d, %d that are as before are kept twice", number, fresh)
		}
	}
	requireGarbageFound(t, made, ids)
	if grown := heap() - before; grown > first*3/2 {
		t.Errorf("after three listings %d MiB are kept, after one %d", grown>>20, first>>20)
	}
	runtime.KeepAlive(made)
}

// requireGarbageFound asks for every node of a listing by ID, and for the healthy one by its name.
func requireGarbageFound(t *testing.T, made *snapshot, ids []string) {
	t.Helper()
	found, err := made.find(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "healthy"}}, time.Now())
	if err != nil || found.Status != Found || found.Metadata.Zone != "b" {
		t.Errorf("the healthy one: %+v, %v", found, err)
	}
	for i, id := range ids {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "any"}, Spec: corev1.NodeSpec{ProviderID: id}}
		if found, err := made.find(node, time.Now()); err != nil || found.Status != Found {
			t.Fatalf("instance %d exists, and found is %v, %.300v", i, found.Status, err)
		}
	}
	_, err = made.find(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "shared"}}, time.Now())
	var ambiguous *AmbiguousNameError
	if !errors.As(err, &ambiguous) || len(err.Error()) > 4000 {
		t.Errorf("a name of a thousand instances: %.300v", err)
	}
}

// TestTenThousandIDsOfWhichTwoAreOne leaves the two out: all others are found, nothing is called gone, and the error names the ID in one line.
func TestTenThousandIDsOfWhichTwoAreOne(t *testing.T) {
	twice := provider.Instance{NodeName: "\x1b[2J", InstanceMetadata: cloudprovider.InstanceMetadata{ProviderID: "sim://i-0", Zone: "other"}}
	before := newSnapshot(0)
	for number := uint64(1); number < 4; number++ {
		listing := newAssembly(before, number)
		for i := range 10_000 {
			if err := listing.add([]provider.Instance{{InstanceMetadata: cloudprovider.InstanceMetadata{ProviderID: fmt.Sprintf("sim://i-%d", i)}}}); err != nil {
				t.Fatal(err)
			}
		}
		spelled := provider.Instance{InstanceMetadata: cloudprovider.InstanceMetadata{ProviderID: "SIM:///i-0"}} // may be a third of them
		if err := listing.add([]provider.Instance{twice, spelled}); err != nil {
			t.Fatal(err)
		}
		before = listing.finish()
		if number > 1 && len(listing.changed) > 0 || len(before.byProviderID) != 10_000 || before.indistinguishable.left() != 2 {
			t.Errorf("listing %d: %d are new, %d are kept, %d are left out", number, len(listing.changed), len(before.byProviderID), before.indistinguishable.left())
		}
	}
	for _, id := range []string{"sim://i-0", "SIM://i-0", "sim://gone"} {
		_, err := before.find(&corev1.Node{Spec: corev1.NodeSpec{ProviderID: id}}, time.Now())
		var invalid *InvalidListError
		if !errors.As(err, &invalid) || len(err.Error()) > 1000 || strings.ContainsAny(err.Error(), "\n\x1b") || !strings.Contains(err.Error(), "sim://i-0") {
			t.Errorf("of %s it says %v", id, err)
		}
	}
	if found, err := before.find(&corev1.Node{Spec: corev1.NodeSpec{ProviderID: "sim://i-1"}}, time.Now()); err != nil || found.Status != Found {
		t.Errorf("one that is healthy: %+v, %v", found, err)
	}
}
