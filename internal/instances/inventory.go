// Package instances is the one place that asks the cloud about instances, on behalf of all controllers.
//
// A provider that can list its instances is asked for lists: any number of nodes costs the pages of one listing; and if it reports
// of changes by a watch, only what the watch does not show is listed. Only whether a few nodes are still as they were is asked node
// by node, if that costs less than the pages. Any other provider is asked
// node by node, and for each fact once, however many callers want to know it. Either way a question that is already on its way to the
// cloud is shared, and an answer is used again for as long as its user allows.
//
// How many calls are under way, and which comes first, is up to the client of the cloud (package cloud): a call that several
// wait for has the highest of their priorities, also if they came while it waited.
//
// What an answer may claim depends on when it was sought. That an instance is there may be said by an answer as old as the
// user of the answer allows. That it is not there may only be said by an answer that was sought after the user asked,
// because the instance may be younger than the last answer. An answer that failed is an error for everybody who waited for
// it; there are no short lists.
package instances

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// DefaultWindow is how long a listing waits before it begins, so a burst of lookups shares it.
const DefaultWindow = 50 * time.Millisecond

// Options say whom to ask, and how hard. A zero field takes its default.
type Options struct {
	// Cloud is asked. Its calls are expected to have deadlines and bounds of their own, see package cloud. Required.
	Cloud cloudprovider.Interface
	// Registerer takes the metrics. Nil: they are not exported.
	Registerer prometheus.Registerer
	// Logger is used where no caller's context brings one.
	Logger logr.Logger
}

// Inventory knows what the cloud said of its instances. It is safe for concurrent use.
type Inventory struct {
	options Options
	one     *perNode
	lister  *lister // nil unless the cloud can list
	stream  *stream // nil unless the provider offers a watch
	// standby says that the watch may run before this process leads.
	standby bool
	metrics *metrics
}

// Yield takes what Lookup would return for one of many nodes.
type Yield func(node *corev1.Node, observation Observation, err error)

// New returns an inventory that has not asked the cloud anything yet.
func New(options Options) *Inventory {
	inventory := &Inventory{options: options, metrics: newMetrics(options.Registerer)}
	capabilities := provider.CapabilitiesOf(options.Cloud)
	inventory.one = newPerNode(options.Cloud, inventory.metrics)
	if capabilities.ListInstances == nil {
		return inventory
	}
	inventory.lister = newLister(capabilities.ListInstances, inventory.one, inventory.metrics)
	if capabilities.WatchInstances != nil {
		inventory.stream = newStream(capabilities.WatchInstances, inventory.lister.newest, inventory.metrics)
		inventory.lister.stream, inventory.standby = inventory.stream, capabilities.StandbySafe
	}
	return inventory
}

// Supported returns an *UnsupportedError if the plugin has no means to be asked about instances. Plugins may offer them only
// once they are initialized, so ask late.
func (i *Inventory) Supported() error {
	if i.Lists() {
		return nil
	}
	_, v2 := i.options.Cloud.InstancesV2()
	_, v1 := i.options.Cloud.Instances()
	if !v1 && !v2 {
		return &UnsupportedError{Provider: i.options.Cloud.ProviderName()}
	}
	return nil
}

// Lookup returns what the cloud says of a node's instance, which is found by the node's provider ID or, if it has none, by
// its name. An instance may be reported as found on the word of an answer no older than maxAge, counted from now; anything
// else is only said by an answer sought from now on. The error says that nothing is known: it is the cloud's, with its type,
// an *AmbiguousNameError, *InvalidListError, *ProviderIDMissingError or *UnsupportedError, or the error of ctx.
func (i *Inventory) Lookup(ctx context.Context, node *corev1.Node, maxAge time.Duration) (observation Observation, err error) {
	if i.lister != nil {
		observation, err = i.lister.lookup(ctx, node, ageOf(maxAge))
	} else {
		observation, err = i.one.lookup(ctx, node, ageOf(maxAge))
	}
	i.metrics.lookups.WithLabelValues(resultOf(observation, err)).Inc()
	return observation, err
}

// resultOf returns what an answer comes to, as the metrics label it.
func resultOf(observation Observation, err error) string {
	if err != nil {
		return "error"
	}
	return statuses[observation.Status]
}

// LookupEach looks many nodes up at once and hands each answer to yield, one at a time and in no particular order. The rules
// are those of Lookup, and the question counts as asked when LookupEach is called. Where the cloud can list, all nodes
// together cost one listing at most; where not, all questions are put at once, and their priority comes from ctx.
func (i *Inventory) LookupEach(ctx context.Context, nodes []*corev1.Node, maxAge time.Duration, yield Yield) {
	i.each(ctx, nodes, ageOf(maxAge), false, yield)
}

// StateEach asks for many nodes whether their instances exist and run, and hands each answer to yield as LookupEach does,
// under the same rules of age. Where the cloud cannot list, it is asked by InstanceExists and InstanceShutdown, or their
// legacy forms, and only Status, State and At are known; of a ready node, only its existence is asked for. An error that comes with the status Found
// says that the instance exists and only its state could not be learned. See ADR 24.
func (i *Inventory) StateEach(ctx context.Context, nodes []*corev1.Node, maxAge time.Duration, yield Yield) {
	i.each(ctx, nodes, ageOf(maxAge), true, yield)
}

func (i *Inventory) each(ctx context.Context, nodes []*corev1.Node, age age, states bool, yield Yield) {
	if len(nodes) == 0 {
		return
	}
	counted := func(node *corev1.Node, observation Observation, err error) {
		i.metrics.lookups.WithLabelValues(resultOf(observation, err)).Inc()
		yield(node, observation, err)
	}
	switch {
	case i.lister != nil:
		i.lister.each(ctx, nodes, age, states, counted)
	case states:
		i.one.states(ctx, nodes, age, counted)
	default:
		i.one.fanOut(ctx, nodes, counted, func(ctx context.Context, node *corev1.Node) (Observation, error) { return i.one.lookup(ctx, node, age) })
	}
}

// Lists reports whether any number of nodes costs the pages of one listing at most. If not, each node costs calls of its own.
func (i *Inventory) Lists() bool { return i.lister != nil }

// ListingTime returns how long the last listing took: a measure of what it costs to read everything again. It is zero where
// the cloud cannot list, and before the first listing.
func (i *Inventory) ListingTime() time.Duration {
	if i.lister == nil {
		return 0
	}
	return time.Duration(i.lister.takes.Load())
}

// Listed hands to yield what the newest listing says of nodes, if there is one that is no older than a time, without asking the cloud.
func (i *Inventory) Listed(nodes []*corev1.Node, notBefore time.Time, yield Yield) {
	if i.lister == nil {
		return
	}
	newest, ok := i.lister.calls.newest()
	if !ok || newest.at.Before(notBefore) {
		return
	}
	for _, node := range nodes {
		observation, err := newest.value.find(node, newest.at)
		yield(node, observation, err)
	}
}

// Peek returns what is known of a node without asking the cloud, and whether anything no older than maxAge is known. Of an
// instance that Peek does not report as found, nothing follows: it may be younger than the answer.
func (i *Inventory) Peek(node *corev1.Node, maxAge time.Duration) (Observation, bool) {
	notBefore := time.Now().Add(-maxAge)
	if i.lister != nil {
		return i.lister.peek(node, notBefore)
	}
	return i.one.peek(node, notBefore)
}

// Start follows the provider's watch until ctx ends, if there is one: from the beginning if the provider allows that on
// standbys, and otherwise from the first question on. It never fails: a process that knows nothing asks when it leads.
func (i *Inventory) Start(ctx context.Context) error {
	if i.stream == nil {
		return nil
	}
	if !i.standby {
		select {
		case <-i.stream.wanted: // who asks is the leader, whose provider is initialized
		case <-ctx.Done():
			return nil
		}
	}
	i.stream.run(logr.NewContext(ctx, i.options.Logger))
	return nil
}

// NeedLeaderElection says that Start runs on replicas that do not lead, too.
func (i *Inventory) NeedLeaderElection() bool { return false }
