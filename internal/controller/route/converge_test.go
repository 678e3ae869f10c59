package route

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"pgregory.net/rapid"
)

// fixture is a cloud whose lists lag behind and whose calls fail, nodes that come and go, and a state between passes. Routes of
// others are in it from the beginning.
type fixture struct {
	situation
	state *state
	now   time.Time
	// past holds the routes as they were, for lists that lag.
	past []snapshotAt
	lag  time.Duration
	made int
}

type snapshotAt struct {
	at     time.Time
	routes []*cloudprovider.Route
}

// listed is what a list shows now.
func (w *fixture) listed() []*cloudprovider.Route {
	shown := w.past[0].routes
	for _, snapshot := range w.past {
		if !snapshot.at.After(w.now.Add(-w.lag)) {
			shown = snapshot.routes
		}
	}
	return shown
}

// perform does what the cloud does: a route that is gone cannot be replaced, and a destination that has a route gets no second.
func (w *fixture) perform(a action) error {
	if a.kind == remove || a.kind == recreate {
		w.routes = slices.DeleteFunc(slices.Clone(w.routes), func(r *cloudprovider.Route) bool { return r.Name == a.old.Name })
	}
	if a.kind == remove {
		return nil
	}
	made := a.wanted()
	if a.kind == replace {
		i := slices.IndexFunc(w.routes, func(r *cloudprovider.Route) bool { return r.Name == a.old.Name })
		if i < 0 {
			return errors.New("there is no such route")
		}
		w.routes = slices.Clone(w.routes)
		w.routes[i] = made
		return nil
	}
	for _, r := range w.routes {
		if canonical(r.DestinationCIDR) == canonical(made.DestinationCIDR) {
			if r.TargetNode == made.TargetNode && !r.Blackhole {
				return nil
			}
			return errors.New("there is another route")
		}
	}
	w.made++
	made.Name = fmt.Sprintf("made-%d", w.made)
	w.routes = append(slices.Clone(w.routes), made)
	return nil
}

// pass makes one pass. Which calls fail, with or without effect, is drawn, if anything fails at all.
func (w *fixture) pass(t *rapid.T, failing bool) {
	wanted := desire(w.members, clusterCIDRs)
	planned := makePlan(wanted, w.listed(), w.can)
	admitted := w.state.admit(wanted, planned, w.state.underWay(), w.now)
	var blocked []destination
	for _, a := range slices.Concat(admitted.removals, admitted.makes) {
		if a.want != nil && slices.ContainsFunc(blocked, a.destination().losesTo) {
			continue
		}
		if a.old != nil && !inClusterCIDRs(a.old.DestinationCIDR) {
			t.Fatalf("%q touches a route outside the cluster CIDRs", a.line())
		}
		w.state.begin(a)
		var err error
		switch fate := rapid.SampledFrom([]string{"succeeds", "fails", "fails but takes effect"}).Draw(t, "fate"); {
		case !failing || fate == "succeeds":
			err = w.perform(a)
		case fate == "fails":
			err = errors.New("scripted")
		default:
			err = errors.Join(w.perform(a), errors.New("scripted"))
		}
		w.state.end(a, err, w.now)
		if err != nil && a.want == nil {
			blocked = append(blocked, a.destination())
		}
	}
	w.past = append(w.past, snapshotAt{w.now, w.routes})
}

// disturb changes a node, or the cloud behind our back.
func (w *fixture) disturb(t *rapid.T) {
	switch rapid.IntRange(0, 3).Draw(t, "disturbance") {
	case 0:
		name := rapid.SampledFrom(drawnNames).Draw(t, "comes or goes")
		before := len(w.members)
		w.members = slices.DeleteFunc(slices.Clone(w.members), func(m member) bool { return m.node.Name == name })
		if len(w.members) == before {
			m := node(name, rapid.SampledFrom(drawnCIDRs[:6]).Draw(t, "CIDR"))
			m.node.UID = types.UID(fmt.Sprintf("%s-%s", name, w.now))
			w.members = append(w.members, m)
		}
	case 1:
		if len(w.routes) > 0 {
			w.routes = slices.Delete(slices.Clone(w.routes), 0, 1)
		}
	case 2:
		if len(w.routes) > 0 {
			i := rapid.IntRange(0, len(w.routes)-1).Draw(t, "drops packets")
			w.routes = slices.Clone(w.routes)
			hole := *w.routes[i]
			hole.Blackhole = true
			w.routes[i] = &hole
		}
	}
	w.past = append(w.past, snapshotAt{w.now, w.routes})
}

// Whatever fails and changes on the way, when it ends the routes are soon what the nodes ask for, and stay so.
func TestRoutesConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &fixture{situation: drawSituation(t), state: newState(DefaultPeriod), now: epoch}
		w.addressed, w.can.maxRoutes = false, 0
		var distinct []*cloudprovider.Route // this cloud has one route to a destination
		for _, r := range w.routes {
			r.EnableNodeAddresses = false
			if !slices.ContainsFunc(distinct, func(d *cloudprovider.Route) bool {
				return canonical(d.DestinationCIDR) == canonical(r.DestinationCIDR)
			}) {
				distinct = append(distinct, r)
			}
		}
		w.routes = distinct
		w.past = []snapshotAt{{w.now, w.routes}}
		w.lag = time.Duration(rapid.IntRange(0, 90).Draw(t, "lag")) * time.Second
		for range rapid.IntRange(0, 12).Draw(t, "passes") {
			w.disturb(t)
			w.pass(t, true)
			w.now = w.now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "pause")) * time.Second)
		}
		for range 6 { // the longest pause after a failure, and some more
			w.now = w.now.Add(time.Minute)
			w.pass(t, false)
		}
		end := w.routes
		planned := makePlan(desire(w.members, clusterCIDRs), end, w.can)
		for _, a := range slices.Concat(planned.removals, planned.makes) {
			if a.kind == create && slices.ContainsFunc(end, func(r *cloudprovider.Route) bool {
				return canonical(r.DestinationCIDR) == canonical(a.want.cidr)
			}) {
				continue // a route that may not be touched, outside the cluster CIDRs or of a node that is not ours, is in its way
			}
			t.Fatalf("in the end there is left to do: %q", a.line())
		}
		w.now = w.now.Add(time.Hour)
		w.pass(t, false)
		if diff := cmp.Diff(end, w.routes); diff != "" {
			t.Fatalf("the routes do not stay as they are:\n%s", diff)
		}
	})
}
