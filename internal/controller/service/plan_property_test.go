package service

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// world is a Service and a cloud to which plans are applied without any effect outside.
type world struct {
	seen observed
	// balancers are the load balancers in the cloud, by the UID of their Service.
	balancers map[types.UID]bool
}

// apply does what an action does, if its turn comes by the rules.
func (w *world) apply(t *rapid.T, act action, targets *targetSet, elsewhere bool) {
	switch act.verb {
	case verbProtect:
		w.write(act, func(s *corev1.Service) { s.Finalizers = append(s.Finalizers, Finalizer) })
	case verbEnsure:
		if !hasFinalizer(w.seen.service) {
			t.Fatal("a load balancer is made for a Service without finalizer")
		}
		w.balancers[act.service.UID] = !elsewhere
		w.seen.made, w.seen.drift = madeFor(act.service, targets, at("192.0.2.1")), nil
		if elsewhere {
			w.seen.made.status = nil
		}
	case verbRetarget:
		written := targets.members
		if act.change != nil {
			written = maps.Clone(w.seen.made.written.members)
			for _, node := range act.change.remove {
				delete(written, node.Name)
			}
			maps.Copy(written, targetsOf(act.change.add).members)
		}
		w.seen.made.targets, w.seen.made.written = written, targets
	case verbPublish:
		w.write(act, func(*corev1.Service) {})
		w.seen.made.unpublished = false
	case verbRemove:
		delete(w.balancers, act.service.UID)
		w.seen.made, w.seen.drift = nil, nil
		w.seen.removed = w.seen.service != nil && act.service.UID == w.seen.service.UID
	case verbRelease:
		if w.balancers[act.service.UID] {
			t.Fatal("a Service is let go that still has a load balancer")
		}
		w.write(act, func(s *corev1.Service) { s.Finalizers = without(s.Finalizers, Finalizer) })
	}
}

func (w *world) write(act action, change func(*corev1.Service)) {
	updated := w.seen.service.DeepCopy()
	updated.Status.LoadBalancer.Ingress = act.publish.ingress
	updated.Status.Conditions = withCondition(updated.Status.Conditions, act.publish.ready)
	change(updated)
	w.seen.service = updated
}

// Whatever there is, planning over the applied result comes to an end, and then the cloud holds what it should.
func TestPlanHasAFixedPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pick := func(label string, edits ...func(*corev1.Service)) func(*corev1.Service) {
			return rapid.SampledFrom(append(edits, func(*corev1.Service) {})).Draw(t, label)
		}
		service := serviceWith(pick("finalizer", protected), pick("type", ofType(corev1.ServiceTypeClusterIP)), pick("deleted", deleted),
			pick("class", ofClass("theirs"), ofClass("ours")), pick("status", reached("192.0.2.7")), pick("condition", conditioned),
			func(s *corev1.Service) { s.Finalizers = append(s.Finalizers, "other/finalizer") })
		sets := []*targetSet{targetsOf(nil), targetsOf([]*corev1.Node{nodeWith("a")}), targetsOf([]*corev1.Node{nodeWith("a", doomed), nodeWith("b")}),
			targetsOf([]*corev1.Node{nodeWith("a"), nodeWith("b"), nodeWith("c")}), targetsOf([]*corev1.Node{nodeWith("a"), nodeWith("b")})}
		w := &world{seen: observed{service: service}, balancers: map[types.UID]bool{}}
		if rapid.Bool().Draw(t, "made") {
			old := service.DeepCopy()
			old.UID = rapid.SampledFrom([]types.UID{service.UID, "uid-0"}).Draw(t, "made for")
			with := rapid.SampledFrom(sets).Draw(t, "made with")
			w.seen.made = madeFor(old, with, at("192.0.2.1"))
			if rapid.Bool().Draw(t, "certain") {
				w.seen.made.written, w.seen.made.wholeAt = with, noon
			}
			w.seen.made.ensured = rapid.Bool().Draw(t, "ensured")
			w.balancers[old.UID] = true
		}
		if rapid.Bool().Draw(t, "vanished") {
			w.seen.service = nil
		}
		foreign := w.seen.made == nil && w.seen.service != nil && service.Spec.LoadBalancerClass != nil && *service.Spec.LoadBalancerClass == "theirs" &&
			conditionOf(service) == nil
		classes := Classes{Names: []string{"ours"}, Default: true}
		byDifference := rapid.Bool().Draw(t, "by difference")
		targets, elsewhere := rapid.SampledFrom(sets).Draw(t, "targets"), rapid.Bool().Draw(t, "elsewhere")
		for round := 0; ; round++ {
			known := state{made: w.seen.made}
			if w.seen.removed {
				known.removed = service.UID
			}
			intent := intentFor(w.seen.service, classes, known.knows(w.seen.service))
			want := desired{intent: intent, settled: targets, latest: targets, byDifference: byDifference}
			if w.seen.service != nil {
				want.inputs = inputsOf(w.seen.service)
			}
			plan := planFor(want, w.seen, noon)
			if len(plan) == 0 {
				if intent == withdraw && w.seen.service != nil && hasFinalizer(w.seen.service) {
					t.Fatal("the Service is not let go")
				}
				w.check(t, classes, elsewhere)
				return
			}
			if round == maxRounds-1 {
				t.Fatalf("still planning %v", verbs(plan))
			}
			if foreign && wantsBalancer(service) {
				t.Fatalf("%v is planned for a Service of somebody else", verbs(plan))
			}
			for _, act := range plan {
				w.apply(t, act, targets, elsewhere)
			}
		}
	})
}

// check asserts the end of all plans.
func (w *world) check(t *rapid.T, classes Classes, elsewhere bool) {
	wants := w.seen.service != nil && intentFor(w.seen.service, classes, false) == provide
	for uid, exists := range w.balancers {
		if exists && (!wants || uid != w.seen.service.UID) {
			t.Fatalf("the load balancer of %s is left over", uid)
		}
	}
	switch {
	case w.seen.service == nil:
	case !slices.Contains(w.seen.service.Finalizers, "other/finalizer"):
		t.Fatal("somebody else's finalizer is gone")
	case wants && !elsewhere && (!w.balancers[w.seen.service.UID] || len(w.seen.service.Status.LoadBalancer.Ingress) == 0):
		t.Fatal("the Service has no load balancer, or does not show it")
	case wants && conditionOf(w.seen.service) == nil:
		t.Fatal("the Service has no condition")
	}
}
