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

func newAssembly(before *snapshot, number uint64) *assembly {
	return &assembly{before: before, number: number, changed: map[string]*entry{}, most: mostListed}
}

// instanceOf makes an instance of which each text has so many bytes.
func instanceOf(i, size int) provider.Instance {
	text := strings.Repeat("x", size)
	made := provider.Instance{NodeName: "node", InstanceMetadata: cloudprovider.InstanceMetadata{
		ProviderID: fmt.Sprintf("sim://i-%d", i), InstanceType: text, Zone: text, Region: text, AdditionalLabels: map[string]string{text: text, "a": text},
	}}
	for range 1000 {
		made.NodeAddresses = append(made.NodeAddresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: text})
	}
	return made
}

// 10,000 instances with megabytes of metadata take the memory of their bounds, and the one beside them that is healthy is found.
func TestAListOfGarbage(t *testing.T) {
	healthy := provider.Instance{NodeName: "healthy", InstanceMetadata: cloudprovider.InstanceMetadata{
		ProviderID: "sim://healthy", Zone: "a", NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
	}}
	listing := newAssembly(newSnapshot(0), 1)
	if err := listing.add([]provider.Instance{healthy}); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const instances = 200 // of so many megabytes; more of them take the test's time and show the same
	for i := range instances {
		if err := listing.add([]provider.Instance{instanceOf(i, 1<<20)}); err != nil {
			t.Fatal(err)
		}
	}
	made := listing.finish()
	runtime.GC()
	runtime.ReadMemStats(&after)
	const most = 256*1024 + bounds.MaxLabelBytes
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > instances*most {
		t.Errorf("%d KiB are kept of each instance", kept/instances>>10)
	}
	if made.bytes > instances*most || made.bytes < instances*256 {
		t.Errorf("%d bytes are counted", made.bytes)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "healthy"}, Spec: corev1.NodeSpec{ProviderID: "sim://healthy"}}
	if found, err := made.find(node, time.Now()); err != nil || found.Status != Found || found.Metadata.Zone != "a" {
		t.Errorf("%+v, %v", found, err)
	}
	again := newAssembly(made, 2)
	for i := range instances {
		if err := again.add([]provider.Instance{instanceOf(i, 1<<20)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(again.changed) > 0 {
		t.Errorf("%d instances that are as before are kept twice", len(again.changed))
	}
	_, err := made.find(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}, time.Now())
	var ambiguous *AmbiguousNameError
	if !errors.As(err, &ambiguous) || len(err.Error()) > 4000 {
		t.Errorf("%d bytes: %.300v", len(err.Error()), err)
	}
}

// A listing that never ends ends in an error, whatever its pages hold.
func TestAListWithoutEnd(t *testing.T) {
	for name, next := range map[string]func(i int) []provider.Instance{
		"of instances":   func(i int) []provider.Instance { return []provider.Instance{instanceOf(i, 1)} },
		"of large ones":  func(i int) []provider.Instance { return []provider.Instance{instanceOf(i, 1000)} },
		"of empty pages": func(int) []provider.Instance { return nil },
		"of the same": func(int) []provider.Instance {
			return []provider.Instance{instanceOf(1, 1)}
		},
		"of long IDs": func(i int) []provider.Instance {
			return []provider.Instance{{InstanceMetadata: cloudprovider.InstanceMetadata{ProviderID: strings.Repeat("x", 5000+i)}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			listing := newAssembly(newSnapshot(0), 1)
			listing.most = limits{instances: 300, bytes: 10 << 20, pages: 1000}
			var err error
			pages := 0
			for ; err == nil && pages < 10_000; pages++ {
				err = listing.add(next(pages))
			}
			var invalid *InvalidListError
			if !errors.As(err, &invalid) || pages > 1001 || listing.bytes > 11<<20 || len(err.Error()) > 1000 {
				t.Errorf("after %d pages and %d bytes: %v", pages, listing.bytes, err)
			}
		})
	}
}

// FuzzListing has a cloud list anything. A listing answers for every instance on it that can be told from the others, and if there are others
// it says of nothing that it is gone; what it finds for a node is that node's, and it is the same listing when it comes again.
func FuzzListing(f *testing.F) {
	for _, text := range []string{
		"sim://1,a,z", "sim://1,a,z;sim://2,b,z", "sim://1,a,z;sim://1,b,z", ",a,z", "sim://1,a,z;SIM://1,b,z;sim:///1,,z", "sim://1,a;sim://2,a;sim://3,a",
		";", "sim://" + strings.Repeat("x", 5000) + ",a,z", "\xff,\xff,\xff", "sim://1,,", "sim://,a,z;sim://1,b,z", "sim://,a,z;sim://,b,z;://,c", "sim://1,a;sim://1,a;sim://1,a;SIM://1,b", "azure:///A/b,n,z;azure:///a/B,n,z;azure:////a/b,n,z",
	} {
		f.Add(text, "sim://1", "a")
		f.Add(text, "", "a")
	}
	f.Fuzz(func(t *testing.T, text, providerID, name string) {
		listing, again, times := newAssembly(newSnapshot(0), 1), []provider.Instance(nil), map[string]int{}
		for one := range strings.SplitSeq(text, ";") {
			parts := strings.Split(one+",,", ",")
			instance := provider.Instance{InstanceMetadata: cloudprovider.InstanceMetadata{ProviderID: parts[0], Zone: parts[2]}}
			instance.NodeName = types.NodeName(parts[1])
			if err := listing.add([]provider.Instance{instance}); err != nil {
				if len(err.Error()) > 1000 {
					t.Errorf("an error of %d bytes", len(err.Error()))
				}
				return
			}
			again = append(again, instance)
			times[instance.ProviderID]++
		}
		made := listing.finish()
		sound := true
		for _, instance := range again {
			node := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: instance.ProviderID}}
			usable := times[instance.ProviderID] == 1 && len(instance.ProviderID) <= bounds.MaxProviderIDBytes && !namesNothing(instance.ProviderID)
			sound = sound && usable
			found, err := made.find(node, time.Now())
			if usable && (err != nil || found.Status != Found || found.Answered != instance.ProviderID) {
				t.Errorf("%q is listed, and found is %+v, %v", instance.ProviderID, found, err)
			}
			if !usable && err == nil && (found.Status != Found || namesNothing(found.Answered)) {
				t.Errorf("%q is listed in a way that says nothing, and found is %+v", instance.ProviderID, found)
			}
		}
		unknown := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: "of another cloud"}}
		if _, err := made.find(unknown, time.Now()); sound != (err == nil) && times[unknown.Spec.ProviderID] == 0 {
			t.Errorf("sound: %t, and of one that is not listed it says %v", sound, err)
		} else if err != nil && len(err.Error()) > 1000 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
		found, err := made.find(node, time.Now())
		if err == nil && found.Status == Found && providerID != "" && formOf(found.Answered) != formOf(providerID) {
			t.Errorf("for %q the instance %q is found", providerID, found.Answered)
		}
		second := newAssembly(made, 2)
		if err := second.add(again); err != nil || len(second.changed) > 0 || len(second.finish().byProviderID) != len(made.byProviderID) {
			t.Errorf("the same listing again: %v, %d of %d are new", err, len(second.changed), len(again))
		}
	})
}
