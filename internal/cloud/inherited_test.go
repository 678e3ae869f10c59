package cloud

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-ccm/mooring/provider"
)

// TestWritesWaitForWhatAnEarlierLeaderHadBegun looks that writes wait until then, each for itself, that reads do not, and that none waits
// for longer than its own context.
func TestWritesWaitForWhatAnEarlierLeaderHadBegun(t *testing.T) {
	var from time.Time
	inVirtualTime(t, Options{WritesFrom: func() time.Time { return from }}, func(t *testing.T, m *misbehaving) {
		const left, call = 12 * time.Second, 50 * time.Millisecond // how long a call takes
		began := time.Now()
		from = began.Add(left)
		if err := m.node(t.Context(), "node"); err != nil || time.Since(began) != call {
			t.Errorf("a read took %s, error %v", time.Since(began), err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.ensure(short, "impatient"); err == nil || time.Since(began) != call+time.Second {
			t.Errorf("a write whose caller gave up took %s, error %v", time.Since(began), err)
		}
		if err := m.ensure(t.Context(), "patient"); err != nil || time.Since(began) != left+call {
			t.Errorf("a write took %s, error %v", time.Since(began), err)
		}
		if err := m.ensure(t.Context(), "next"); err != nil || time.Since(began) != left+2*call {
			t.Errorf("the next write took until %s, error %v", time.Since(began), err)
		}
	})
}

// TestLoadBalancersThatEndWithTheirProcess do not wait; other writes do.
func TestLoadBalancersThatEndWithTheirProcess(t *testing.T) {
	const left = 12 * time.Second
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		options := many(Options{WritesFrom: func() time.Time { return began.Add(left) }})
		m := newMisbehaving(options)
		m.cloud = Decorate(ending{m}, options)
		if err := m.ensure(t.Context(), "service"); err != nil || time.Since(began) >= left {
			t.Errorf("a write about a load balancer took %s, error %v", time.Since(began), err)
		}
		if err := m.route(t.Context(), "10.0.0.0/24"); err != nil || time.Since(began) < left {
			t.Errorf("a write about a route took until %s, error %v", time.Since(began), err)
		}
	})
}

// ending is a plugin whose load balancers end with the process.
type ending struct{ *misbehaving }

func (e ending) Capabilities() provider.Capabilities {
	return provider.Capabilities{LoadBalancersEndWithProcess: true}
}
