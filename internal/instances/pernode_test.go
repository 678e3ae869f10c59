package instances_test

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

func TestEachInstanceIsAskedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newV2Cloud(everything)
		inv := instances.New(instances.Options{Cloud: cloud})
		var waiting sync.WaitGroup
		for range 10 { // ten users at once
			waiting.Go(func() { lookup(t, inv, node("a"), time.Second) })
		}
		waiting.Wait()
		lookup(t, inv, node("a"), time.Minute) // and one later
		if got := cloud.of("a"); got != 1 {
			t.Errorf("asked %d times, want once", got)
		}
		time.Sleep(time.Minute)
		lookup(t, inv, node("a"), time.Minute)
		if got := cloud.of("a"); got != 2 {
			t.Errorf("asked %d times, want again once the answer is too old", got)
		}
	})
}

func TestNotFoundIsNeverRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newV2Cloud(func(*corev1.Node) (*cloudprovider.InstanceMetadata, error) { return nil, provider.ErrInstanceNotFound })
		inv := instances.New(instances.Options{Cloud: cloud})
		for want := 1; want <= 3; want++ {
			asked := time.Now()
			observation := lookup(t, inv, node("a"), time.Hour)
			if observation.Status != instances.NotFound || observation.At.Before(asked) || cloud.of("a") != want {
				t.Errorf("%s at %s after %d calls, want a new answer", observation.Status, observation.At, cloud.of("a"))
			}
		}
	})
}

func TestAnotherNodeOfTheSameNameIsAskedForAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newV2Cloud(everything)
		inv := instances.New(instances.Options{Cloud: cloud})
		lookup(t, inv, node("a"), time.Hour)
		recreated := node("a")
		recreated.UID = "another"
		lookup(t, inv, recreated, time.Hour)
		lookup(t, inv, nodeWithID("a", "sim://a"), time.Hour)
		if got := cloud.of("a"); got != 3 {
			t.Errorf("asked %d times, want 3", got)
		}
	})
}

// A thousand nodes that join wait for the cloud, not for each other: how many calls are under way is up to its client.
func TestAThousandNodesJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newV2Cloud(everything)
		inv := instances.New(instances.Options{Cloud: cloud})
		joining, _ := nodes(1000)
		start := time.Now()
		var waiting sync.WaitGroup
		for _, n := range joining {
			waiting.Go(func() { lookup(t, inv, n, 2*time.Second) })
		}
		waiting.Wait()
		if took := time.Since(start); took != cloud.callTime {
			t.Errorf("took %s, want the %s of one call", took, cloud.callTime)
		}
	})
}

// quota is a cloud whose client lets in so many calls a second. What waits for them waits in the client's queue.
const quota = 10

// A node that joins passes a refresh of any size, also when the refresh already waits to ask for this node, or asks for it.
func TestAJoiningNodeDoesNotWaitForRefreshes(t *testing.T) {
	for _, name := range []string{"new", "node-1999", "node-0"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plugin := newV2Cloud(everything)
				inv := instances.New(instances.Options{Cloud: cloud.Decorate(plugin, cloud.Options{QPS: quota, Burst: 1})})
				all, _ := nodes(2000)
				ctx, stop := context.WithCancel(admission.WithPriority(t.Context(), admission.PriorityRefresh))
				var waiting sync.WaitGroup
				for range 3 { // controllers, each of which asks for all nodes, from another node on
					all = append(all[13:], all[:13]...)
					asked := slices.Clone(all)
					waiting.Go(func() { inv.LookupEach(ctx, asked, 0, func(*corev1.Node, instances.Observation, error) {}) })
				}
				time.Sleep(10*time.Second + 50*time.Millisecond) // when no call begins
				start, before := time.Now(), plugin.total()
				joins := admission.WithPriority(t.Context(), admission.PriorityNewNode)
				if _, err := inv.Lookup(joins, node(name), 2*time.Second); err != nil {
					t.Error(err)
				}
				// A call that began too early has to end before the node's own begins. Before each, one turn of the queue may belong to
				// the call that has waited longest.
				if took, most := time.Since(start), 2*(plugin.callTime+2*time.Second/quota); took > most {
					t.Errorf("took %s, want at most %s", took, most)
				}
				if calls, most := plugin.total()-before, int(time.Since(start).Seconds()*quota)+1; calls > most {
					t.Errorf("%d calls meanwhile, want at most the %d of the quota", calls, most)
				}
				stop()
				waiting.Wait()
			})
		})
	}
}

// An answer is as old as the call, and not as the question: what has waited for the quota for a minute is good for who asks now.
func TestAnAnswerIsNoOlderThanItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := newV2Cloud(everything)
		inv := instances.New(instances.Options{Cloud: cloud.Decorate(plugin, cloud.Options{QPS: quota, Burst: 1})})
		all, _ := nodes(60*quota + 1)
		asked := time.Now()
		var last *corev1.Node
		inv.LookupEach(t.Context(), all, 0, func(node *corev1.Node, said instances.Observation, err error) {
			last = node
			if ago := time.Since(said.At); err != nil || ago > 2*plugin.callTime {
				t.Errorf("node %s: an answer of %s ago, %v, want one of its call", node.Name, ago, err)
			}
		})
		if took := time.Since(asked); took < time.Minute {
			t.Fatalf("the last answer came after %s, want it to have waited for a minute", took)
		}
		before := plugin.total()
		lookup(t, inv, last, 5*time.Second)
		if calls := plugin.total() - before; calls > 0 {
			t.Errorf("%d calls for an answer that is known", calls)
		}
	})
}

// running returns how many goroutines run that the package has started. runtime.NumGoroutine counts one for a while after it has ended.
func running() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "created by "+reflect.TypeFor[instances.Inventory]().PkgPath()+".")
}

// Nothing runs when no caller asks: no call, and no goroutine that could make one.
func TestAnIdleInventoryDoesNothing(t *testing.T) {
	for name, cloud := range map[string]interface {
		cloudprovider.Interface
		total() int
	}{"that lists": newListingCloud("a"), "that is asked": newV2Cloud(everything)} {
		t.Run("a cloud "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := running()
				inv := instances.New(instances.Options{Cloud: cloud})
				lookup(t, inv, node("a"), 0)
				asked := cloud.total()
				synctest.Wait()
				if left := running(); left > before {
					t.Errorf("%d goroutines more than before", left-before)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if got := cloud.total(); got != asked {
					t.Errorf("%d calls in an idle hour", got-asked)
				}
			})
		})
	}
}

// Upstream's TestGetInstanceMetadata with InstancesV2, and what its Test_syncNode says of nil metadata and of errors.
func TestWhatInstancesV2Says(t *testing.T) {
	broken := errors.New("metadata error")
	tests := []struct {
		name     string
		node     *corev1.Node
		says     *cloudprovider.InstanceMetadata
		fails    error
		want     instances.Observation
		wantErr  error
		idAbsent bool
	}{
		{
			name: "with providerID", node: node("node0"), says: &cloudprovider.InstanceMetadata{ProviderID: "sim://12345", Zone: "z"},
			want: instances.Observation{
				Status: instances.Found, Answered: "sim://12345",
				Metadata: cloudprovider.InstanceMetadata{ProviderID: "sim://12345", Zone: "z"},
			},
		},
		{name: "without providerID", node: node("node0"), says: &cloudprovider.InstanceMetadata{Zone: "z"}, idAbsent: true},
		{name: "a scheme without an ID", node: node("node0"), says: &cloudprovider.InstanceMetadata{ProviderID: "vsphere://"}, idAbsent: true},
		{name: "a scheme and slashes", node: node("node0"), says: &cloudprovider.InstanceMetadata{ProviderID: "aws:///"}, idAbsent: true},
		{
			name: "without providerID and node with providerID",
			node: nodeWithID("node0", "sim://12345"), says: &cloudprovider.InstanceMetadata{},
			want: instances.Observation{Status: instances.Found, Metadata: cloudprovider.InstanceMetadata{ProviderID: "sim://12345"}},
		},
		{
			name: "another providerID than the node's",
			node: nodeWithID("node0", "sim://1"), says: &cloudprovider.InstanceMetadata{ProviderID: "sim://2"},
			want: instances.Observation{
				Status: instances.Found, Answered: "sim://2", Metadata: cloudprovider.InstanceMetadata{ProviderID: "sim://2"},
			},
		},
		{name: "nil instanceMetadata", node: node("node0"), want: instances.Observation{Status: instances.NoStatement}},
		{
			name: "instance not found", node: node("node0"), fails: provider.ErrInstanceNotFound,
			want: instances.Observation{Status: instances.NotFound},
		},
		{name: "error getting InstanceMetadata", node: node("node0"), fails: broken, wantErr: broken},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := newV2Cloud(func(*corev1.Node) (*cloudprovider.InstanceMetadata, error) { return test.says, test.fails })
				inv := instances.New(instances.Options{Cloud: cloud})
				got, err := inv.Lookup(t.Context(), test.node, 0)
				var missing *instances.ProviderIDMissingError
				if errors.As(err, &missing) != test.idAbsent || test.wantErr != nil && !errors.Is(err, test.wantErr) {
					t.Fatalf("error %v, want %v", err, test.wantErr)
				}
				if test.idAbsent || test.wantErr != nil {
					return
				}
				test.want.At, test.want.Listed = got.At, -1
				if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
					t.Errorf("error %v; observation (-want +got):\n%s", err, diff)
				}
			})
		})
	}
}

func TestThePluginGetsANodeOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newV2Cloud(func(n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
			n.Spec.ProviderID = "scribbled"
			return found("sim://a")
		})
		inv := instances.New(instances.Options{Cloud: cloud})
		mine := node("a")
		lookup(t, inv, mine, 0)
		if mine.Spec.ProviderID != "" {
			t.Error("the plugin wrote to the caller's node")
		}
	})
}

func TestUnreadAnswersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newV2Cloud(everything)
		inv := instances.New(instances.Options{Cloud: cloud})
		lookup(t, inv, node("a"), 0)
		time.Sleep(20 * time.Minute)
		lookup(t, inv, node("b"), 0)
		if _, known := inv.Peek(node("a"), time.Hour); known {
			t.Error("an answer of 20 minutes ago is still kept")
		}
		if _, known := inv.Peek(node("b"), time.Hour); !known {
			t.Error("a new answer is not kept")
		}
	})
}

func TestSupported(t *testing.T) {
	if err := instances.New(instances.Options{Cloud: newV2Cloud(everything)}).Supported(); err != nil {
		t.Error(err)
	}
	if err := instances.New(instances.Options{Cloud: newListingCloud()}).Supported(); err != nil {
		t.Error(err)
	}
	var unsupported *instances.UnsupportedError
	if err := instances.New(instances.Options{Cloud: &legacyCloud{}}).Supported(); !errors.As(err, &unsupported) {
		t.Errorf("error %v, want an UnsupportedError", err)
	}
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		cloud := newListingCloud("a", "b", "c")
		cloud.pageSize = 2
		inv := instances.New(instances.Options{Cloud: cloud, Registerer: registry})
		lookup(t, inv, node("a"), 0)
		lookup(t, inv, node("a"), time.Hour)
		lookup(t, inv, node("missing"), 0)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, family := range families {
			for _, metric := range family.Metric {
				got[family.GetName()] += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
		for name, want := range map[string]float64{
			"mooring_inventory_listings_total": 2, "mooring_inventory_pages_total": 4,
			"mooring_inventory_instances": 3, "mooring_inventory_lookups_total": 3,
		} {
			if got[name] != want {
				t.Errorf("%s is %v, want %v", name, got[name], want)
			}
		}
	})
}
