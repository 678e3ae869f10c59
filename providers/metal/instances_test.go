package metal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/machines/machine"
	"github.com/mooring-ccm/mooring/providers/metal/machines/power"
)

// grid is the power of machines, which a test turns on and off.
type grid struct {
	mu          sync.Mutex
	states      map[string]power.State
	subscribers []func()
}

func newGrid() *grid { return &grid{states: map[string]power.State{}} }

func (g *grid) Observe(id string) power.Observation {
	g.mu.Lock()
	defer g.mu.Unlock()
	return power.Observation{State: g.states[id]}
}

func (g *grid) Subscribe(changed func()) func() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.subscribers = append(g.subscribers, changed)
	return func() {}
}

func (g *grid) set(id string, state power.State) {
	g.mu.Lock()
	g.states[id] = state
	subscribers := slices.Clone(g.subscribers)
	g.mu.Unlock()
	for _, changed := range subscribers {
		changed()
	}
}

// rack is an inventory in files, and the instances that it makes.
type rack struct {
	*Instances
	t      *testing.T
	source *config.Source
	grid   *grid
	mu     sync.Mutex
	list   string
	// machines are the lines of the list, by name.
	machines map[string]string
}

func newRack(t *testing.T, machines ...string) *rack {
	t.Helper()
	dir := t.TempDir()
	r := &rack{t: t, grid: newGrid(), list: filepath.Join(dir, "list.yaml"), machines: map[string]string{}}
	for i, fields := range machines {
		name, more, _ := strings.Cut(fields, " ")
		r.machines[name] = fmt.Sprintf("{name: %s, addresses: [{address: 10.0.0.%d}], %s}", name, i+1, more)
	}
	text := fmt.Sprintf("apiVersion: %s\nkind: %s\npower: {interval: 1s}\ninventory: {paths: [list.yaml]}\n", config.APIVersion, config.CloudConfigKind)
	path := filepath.Join(dir, "config.yaml")
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), r.write()); err != nil {
		t.Fatal(err)
	}
	var err error
	if r.source, err = config.OpenFile(path); err != nil {
		t.Fatal(err)
	}
	r.Instances = NewInstances(r.source, r.grid)
	t.Cleanup(r.Close)
	return r
}

// write writes the list.
func (r *rack) write() error {
	text := fmt.Sprintf("apiVersion: %s\nkind: %s\nmachines:\n", config.APIVersion, config.MachineListKind)
	for _, name := range slices.Sorted(maps.Keys(r.machines)) {
		text += "- " + r.machines[name] + "\n"
	}
	return os.WriteFile(r.list, []byte(text), 0o600)
}

// set adds a machine, changes it, or takes it out if fields are empty.
func (r *rack) set(ctx context.Context, name, fields string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.machines[name] = fields; fields == "" {
		delete(r.machines, name)
	}
	if err := r.write(); err != nil {
		return err
	}
	return r.source.Reload(ctx)
}

func nodeNamed(name string) *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func TestInstances(t *testing.T) {
	r := newRack(t, "n1 zone: rack-7, region: north, machineType: big, labels: {a: b}", "n2 id: two", "n3 id: three")
	r.grid.set("two", power.Off)
	for name, test := range map[string]struct {
		exists, shutdown bool
		providerID       string
		state            power.State
	}{
		"n1": {true, false, "metal://n1", power.Unknown}, "n2": {true, true, "metal://two", power.Off},
		"n3": {true, false, "metal://three", power.Unknown}, "n4": {},
	} {
		ctx, node := t.Context(), nodeNamed(name)
		exists, err := r.InstanceExists(ctx, node)
		if exists != test.exists || err != nil {
			t.Errorf("%s exists: %t, %v", name, exists, err)
		}
		shutdown, err := r.InstanceShutdown(ctx, node)
		if shutdown != test.shutdown || (err == nil) != test.exists {
			t.Errorf("%s is shut down: %t, %v", name, shutdown, err)
		}
		metadata, err := r.InstanceMetadata(ctx, node)
		if (err == nil) != test.exists || err == nil && metadata.ProviderID != test.providerID {
			t.Errorf("%s: %+v, %v", name, metadata, err)
		}
		if observed := r.Observe(node); observed.State != test.state {
			t.Errorf("power of %s: %s", name, observed.State)
		}
	}
	metadata, err := r.InstanceMetadata(t.Context(), nodeNamed("n1"))
	want := &cloudprovider.InstanceMetadata{
		ProviderID: "metal://n1", InstanceType: "big", Zone: "rack-7", Region: "north",
		NodeAddresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}}, AdditionalLabels: map[string]string{"a": "b"},
	}
	if diff := cmp.Diff(want, metadata); diff != "" || err != nil {
		t.Errorf("%v, metadata (-want +got):\n%s", err, diff)
	}
	conflicting := nodeNamed("n1")
	conflicting.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.2"}}
	var conflict *machine.ConflictError
	if exists, err := r.InstanceExists(t.Context(), conflicting); exists || !errors.As(err, &conflict) {
		t.Errorf("a node of two machines exists: %t, %v", exists, err)
	}
}

// A rename in the inventory, or of a node, changes neither which machine a node's is nor its provider ID.
func TestRenames(t *testing.T) {
	r := newRack(t, "n1 systemUUID: 00112233-4455-6677-8899-aabbccddeeff")
	node := nodeNamed("n1")
	metadata, err := r.InstanceMetadata(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	node.Spec.ProviderID = metadata.ProviderID
	delete(r.machines, "n1")
	if err := r.set(t.Context(), "n9", "{name: n9, systemUUID: 00112233-4455-6677-8899-aabbccddeeff, addresses: [{address: 10.0.0.9}]}"); err != nil {
		t.Fatal(err)
	}
	again, err := r.InstanceMetadata(t.Context(), node)
	if err != nil || again.ProviderID != metadata.ProviderID || again.NodeAddresses[0].Address != "10.0.0.9" {
		t.Errorf("after the rename: %+v, %v", again, err)
	}
}

// listed is what a list says: names of nodes by provider ID.
func listed(t *testing.T, i *Instances) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := i.List(t.Context(), func(page []provider.Instance) error {
		if len(page) > listPage {
			t.Errorf("a page of %d", len(page))
		}
		for _, instance := range page {
			all[instance.ProviderID] = string(instance.NodeName) + " " + instance.State.String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Lists name the nodes that belong to machines by something else than their names.
func TestListsFollowNodes(t *testing.T) {
	r := newRack(t, "n1 systemUUID: 00112233-4455-6677-8899-aabbccddeeff, id: one", "n2 id: two")
	if diff := cmp.Diff(map[string]string{"metal://one": "n1 unknown", "metal://two": "n2 unknown"}, listed(t, r.Instances)); diff != "" {
		t.Errorf("without nodes (-want +got):\n%s", diff)
	}
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	if err := r.FollowNodes(factory.Core().V1().Nodes()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	defer cancel()
	factory.WaitForCacheSync(ctx.Done())
	events := make(chan provider.InstanceEvent, 100)
	watching := make(chan error, 1)
	go func() {
		watching <- r.Watch(ctx, func(event provider.InstanceEvent) error { events <- event; return nil })
	}()
	node := nodeNamed("another-name")
	node.Status.NodeInfo.SystemUUID = "33221100-5544-7766-8899-AABBCCDDEEFF"
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	late := time.After(poll.Deadline)
	for named := false; !named; {
		select {
		case event := <-events:
			named = event.Instance.ProviderID == "metal://one" && event.Instance.NodeName == "another-name"
		case <-late:
			t.Fatal("the watch does not name the node")
		}
	}
	if diff := cmp.Diff(map[string]string{"metal://one": "another-name unknown", "metal://two": "n2 unknown"}, listed(t, r.Instances)); diff != "" {
		t.Errorf("with nodes (-want +got):\n%s", diff)
	}
	cancel()
	if err := <-watching; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch returned %v", err)
	}
}

// sequence is what a watch sent, mark by mark.
func sequence(events []provider.InstanceEvent) string {
	var sent []string
	for _, event := range events {
		switch event.Kind {
		case provider.InstancesCurrent:
			sent = append(sent, "|")
		case provider.InstanceDeleted:
			sent = append(sent, "-"+event.Instance.ProviderID)
		default:
			sent = append(sent, event.Instance.ProviderID+" "+event.Instance.State.String())
		}
	}
	return strings.Join(sent, " ")
}

// A watch sends changes of the inventory and of power at once, and nothing else, with a mark each second.
func TestWatch(t *testing.T) {
	r := newRack(t, "n1", "n2")
	synctest.Test(t, func(t *testing.T) {
		machines := &Instances{power: r.grid, watchers: map[*watcher]bool{}}
		machines.use(r.source.Current())
		r.grid.subscribers = []func(){machines.wake}
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var events []provider.InstanceEvent
		done := make(chan error, 1)
		go func() {
			done <- machines.Watch(ctx, func(event provider.InstanceEvent) error {
				mu.Lock()
				defer mu.Unlock()
				events = append(events, event)
				return nil
			})
		}()
		want := func(what, expected string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if got := sequence(events); got != expected {
				t.Errorf("%s: got %s, want %s", what, got, expected)
			}
			events = nil
		}
		change := func(name, fields string) {
			t.Helper()
			if err := r.set(ctx, name, fields); err != nil {
				t.Fatal(err)
			}
			machines.use(r.source.Current())
		}
		want("at first", "metal://n1 unknown metal://n2 unknown |")
		r.grid.set("n1", power.Off)
		want("n1 was turned off", "metal://n1 stopped |")
		r.grid.set("n1", power.Off)
		want("nothing", "|")
		change("n3", "{name: n3, addresses: [{address: 10.0.0.3}]}")
		want("n3 is new", "metal://n3 unknown |")
		change("n2", "{name: n2, zone: b, addresses: [{address: 10.0.0.2}]}")
		want("n2 has moved", "metal://n2 unknown |")
		change("n1", "")
		want("n1 has gone", "-metal://n1 |")
		time.Sleep(3500 * time.Millisecond)
		want("nothing for 3.5 s", "| | |")
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch returned %v", err)
		}
		if len(machines.watchers) != 0 {
			t.Error("the watch is not forgotten")
		}
	})
}

// Lists, watches and questions go on while machines and their power change.
func TestInstancesAreSafeForConcurrentUse(t *testing.T) {
	r := newRack(t, "n1", "n2")
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { _ = r.Watch(ctx, func(provider.InstanceEvent) error { return nil }) })
		all.Go(func() {
			for ctx.Err() == nil {
				_, _ = r.InstanceExists(ctx, nodeNamed("n1"))
				_ = r.List(ctx, func([]provider.Instance) error { return nil })
			}
		})
	}
	for i := range 30 {
		r.grid.set("n1", power.State(i%3))
		if err := r.set(ctx, "n3", fmt.Sprintf("{name: n3, zone: z%d, addresses: [{address: 10.0.0.3}]}", i)); err != nil {
			t.Error(err)
		}
	}
	cancel()
	all.Wait()
}

// From the file with a command to a node's shutdown: nothing is faked.
func TestPowerReachesInstances(t *testing.T) {
	state := filepath.Join(t.TempDir(), "power")
	if err := os.WriteFile(state, []byte("on"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRack(t, fmt.Sprintf("n1 bmc: {command: {argv: [/bin/cat, %s]}}", state))
	poller := power.NewPoller(power.Options{})
	machines := NewInstances(r.source, poller)
	defer machines.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- poller.Run(ctx, r.source) }()
	sent := make(chan provider.InstanceState, 100)
	go func() {
		done <- machines.Watch(ctx, func(event provider.InstanceEvent) error {
			if event.Kind == provider.InstanceSet {
				sent <- event.Instance.State
			}
			return nil
		})
	}()
	await := func(want provider.InstanceState) {
		t.Helper()
		late := time.After(poll.Deadline)
		for {
			select {
			case got := <-sent:
				if got == want {
					return
				}
			case <-late:
				t.Fatalf("no event of the state %s", want)
			}
		}
	}
	await(provider.InstanceRunning)
	if err := os.WriteFile(state, []byte("off"), 0o600); err != nil {
		t.Fatal(err)
	}
	await(provider.InstanceStopped)
	if off, err := machines.InstanceShutdown(ctx, nodeNamed("n1")); !off || err != nil {
		t.Errorf("InstanceShutdown: %t, %v", off, err)
	}
	cancel()
	if err := errors.Join(<-done, <-done); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
