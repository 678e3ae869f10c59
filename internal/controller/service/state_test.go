package service

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// A provider that calls for a Service which is served has it ensured again, and one that knows nothing of it has nothing done.
func TestAProviderHasAServiceEnsuredAgain(t *testing.T) {
	s, served, other := newStates(), types.NamespacedName{Name: "served"}, types.NamespacedName{Name: "other"}
	s.take(served)
	s.end(served, state{made: &made{ensured: true}}, nil)
	if len(s.retryNow(served)) == 0 || len(s.retryNow(other)) > 0 {
		t.Error("the wrong Services are due")
	}
	known, _ := s.get(served)
	if why := reasonsToEnsure(desired{}, observed{made: known.made, drift: known.drift}); len(why) == 0 {
		t.Error("nothing has the plugin look at the load balancer")
	}
}

// What others find out while a pass has the row changes nothing, and a call of the provider is heard when the pass ends.
func TestAPassIsTheOnlyWriter(t *testing.T) {
	s, key, balancer := newStates(), types.NamespacedName{Name: "served"}, &made{ensured: true}
	row, _, _ := s.take(key)
	row.made = balancer
	s.store(key, row)
	if s.observe(key, balancer, func(row *state) { row.repairs++ }) || len(s.retryNow(key)) == 0 {
		t.Error("the row of a pass was changed, or the provider is not heard")
	}
	s.end(key, row, nil)
	if after, _ := s.get(key); len(after.drift) == 0 || after.repairs > 0 {
		t.Errorf("the row is %+v after the pass", after)
	}
	if s.observe(key, nil, func(row *state) { row.repairs++ }) {
		t.Error("what is about another load balancer was noted")
	}
}

// Two Services that have a name one after the other never have passes at once, and the one that waits is due when the other's ends.
func TestServicesOfANameHaveOnePassAtATime(t *testing.T) {
	s, old, again := newStates(), types.NamespacedName{Name: "web/1"}, types.NamespacedName{Name: "web/2"}
	s.take(old)
	_, _, atOnce := s.take(again)
	due := s.end(old, state{made: &made{}}, nil)
	if _, before, free := s.take(again); atOnce || len(due) != 1 || due[0] != again || !free || before == nil {
		t.Errorf("at once %t, due %v, free %t, before %v", atOnce, due, free, before)
	}
}
