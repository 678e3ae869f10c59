package conformance

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// The defaults of Options, for a cloud that answers at once.
const (
	DefaultClusterName        = "mooring-conformance"
	DefaultPropagationTimeout = 10 * time.Second
	DefaultRuleTimeout        = time.Minute
)

// Options say how rules are tried. The zero value is for a cloud that answers at once, such as a fake.
type Options struct {
	// ClusterName is the name of the cluster that the provider is called with; empty means DefaultClusterName. A provider
	// whose config names the cluster ignores it.
	ClusterName string
	// RunID distinguishes what several runs make in one account: it is a part of the names of Services and instances, and the UIDs
	// of Services come from it. Empty means a random one.
	RunID string
	// PropagationTimeout is how long the cloud may take to get a load balancer ready, or to show a change. Zero means DefaultPropagationTimeout.
	PropagationTimeout time.Duration
	// RuleTimeout bounds the trial of one rule, and again the removal of what it made. Zero means DefaultRuleTimeout.
	RuleTimeout time.Duration
	// Rules are the IDs of the rules to try; none means all.
	Rules []string
	// Skip holds, by the ID of a rule that is not tried, the reason.
	Skip map[string]string
	// Progress is called with each result when it is there. Nil is fine.
	Progress func(Result)
}

// Validate returns everything that is wrong with the options.
func (o Options) Validate() error {
	_, err := o.complete()
	return err
}

// complete returns the options with their defaults, or everything that is wrong with them.
func (o Options) complete() (Options, error) {
	var wrong []error
	known := map[string]bool{}
	for _, rule := range Rules() {
		known[rule.ID] = true
	}
	for _, id := range slices.Concat(o.Rules, slices.Sorted(maps.Keys(o.Skip))) {
		if !known[id] {
			wrong = append(wrong, fmt.Errorf("there is no rule %q", id))
		}
	}
	for id, reason := range o.Skip {
		if strings.TrimSpace(reason) == "" {
			wrong = append(wrong, fmt.Errorf("rule %s is skipped without a reason", id))
		}
	}
	if o.PropagationTimeout < 0 || o.RuleTimeout < 0 {
		wrong = append(wrong, fmt.Errorf("propagation timeout %s, rule timeout %s: must not be negative", o.PropagationTimeout, o.RuleTimeout))
	}
	if o.ClusterName == "" {
		o.ClusterName = DefaultClusterName
	}
	if o.RunID == "" {
		o.RunID = uuid.NewString()[:8]
	}
	if o.PropagationTimeout == 0 {
		o.PropagationTimeout = DefaultPropagationTimeout
	}
	if o.RuleTimeout == 0 {
		o.RuleTimeout = DefaultRuleTimeout
	}
	return o, errors.Join(wrong...)
}

// selected returns the rules to report on, in their order.
func (o Options) selected() []Rule {
	if len(o.Rules) == 0 {
		return Rules()
	}
	return slices.DeleteFunc(Rules(), func(rule Rule) bool { return !slices.Contains(o.Rules, rule.ID) })
}
