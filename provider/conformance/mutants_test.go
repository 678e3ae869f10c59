package conformance_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/provider/conformance"
)

// mutation makes a provider wrong in one way, by which it breaks one rule.
type mutation struct {
	rule string
	// wrong says what the provider does.
	wrong string
	apply func(m *mutant)
}

func mutations() []mutation {
	return slices.Concat(instanceMutations(), identityMutations(), legacyMutations(), listMutations(), watchMutations(),
		balancerMutations(), balancerShapeMutations(), balancerServiceMutations(), balancerChangeMutations(), balancerFailureMutations(), routeMutations(), nodeGroupMutations())
}

// TestEveryRuleCanFail tries each rule on a provider that breaks it, and on one that does not.
func TestEveryRuleCanFail(t *testing.T) {
	all := mutations()
	for _, rule := range conformance.Rules() {
		if !slices.ContainsFunc(all, func(m mutation) bool { return m.rule == rule.ID }) {
			t.Errorf("rule %s has no mutant: it is unknown whether it can fail", rule.ID)
		}
	}
	for _, m := range all {
		t.Run(m.rule+"/"+strings.ReplaceAll(m.wrong, " ", "_"), func(t *testing.T) {
			t.Parallel()
			right := tryMutant(t, m.rule, func(*mutant) {})
			if right.Outcome != conformance.Passed || !right.OK() {
				t.Fatalf("without the mutation: %s %s, %q, left %q", right.Outcome, right.Reason, right.Findings, right.NotRemoved)
			}
			wrong := tryMutant(t, m.rule, m.apply)
			if wrong.Outcome != conformance.Failed || len(wrong.Findings) == 0 || wrong.Rule.ID != m.rule {
				t.Errorf("a provider in which %s: %s %s, findings %q", m.wrong, wrong.Outcome, wrong.Reason, wrong.Findings)
			}
			t.Logf("%q", wrong.Findings)
		})
	}
}

// tryMutant tries one rule on a mutant with a cloud of its own.
func tryMutant(t *testing.T, rule string, apply func(*mutant)) conformance.Result {
	t.Helper()
	m, _ := newMutant(t)
	create := m.subject.Hooks.CreateInstance
	m.subject.Hooks.CreateInstance = func(ctx context.Context, name string) (conformance.Instance, error) {
		instance, err := create(ctx, name)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.created = append(m.created, instance)
		return instance, err
	}
	apply(m)
	// The simulated cloud shows each change at once, and sets a mark each second.
	options := conformance.Options{Rules: []string{rule}}
	if strings.HasPrefix(rule, "watch-") {
		options.PropagationTimeout = 5 * time.Second
	}
	return check(t, m, options).Results[0]
}
