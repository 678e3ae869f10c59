package service

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// fixture is a Service and a cloud to which plans are applied without any effect outside.
type fixture struct {
	seen observed
	// balancers are the load balancers in the cloud, by the UID of their Service.
	balancers map[types.UID]bool
}

// apply does what an action does, if its turn comes by the rules.
func (f *fixture) apply(t *rapid.T, act action, targets *targetSet, elsewhere bool) {
	switch act.verb {
	case verbProtect:
		f.write(act, func(s *corev1.Service) { s.Finalizers = append(s.Finalizers, Finalizer) })
	case verbEnsure:
		if !hasFinalizer(f.seen.service) {
			t.Fatal("a load balancer is made for a Service without finalizer")
		}
		f.balancers[act.service.UID] = !elsewhere
		f.seen.made, f.seen.drift = madeFor(act.service, targets, at("192.0.2.1")), nil
		if elsewhere {
			f.seen.made.status = nil
		}
	case verbRetarget:
		written := targets.members
		if act.change != nil {
			written = maps.Clone(f.seen.made.writtenTargets.members)
			for _, node := range act.change.remove {
				delete(written, node.name)
			}
			maps.Copy(written, targetsOf(lastKnown(act.change.add)).members)
		}
		f.seen.made.targets, f.seen.made.writtenTargets = written, targets
	case verbPublish:
		f.write(act, func(*corev1.Service) {})
		f.seen.made.unpublished = false
	case verbRemove:
		delete(f.balancers, act.service.UID)
		f.seen.made, f.seen.drift = nil, nil
		f.seen.removed = f.seen.service != nil && act.service.UID == f.seen.service.UID
	case verbRelease:
		if f.balancers[act.service.UID] {
			t.Fatal("a Service is let go that still has a load balancer")
		}
		f.write(act, func(s *corev1.Service) { controllerutil.RemoveFinalizer(s, Finalizer) })
	}
}

func (f *fixture) write(act action, change func(*corev1.Service)) {
	updated := f.seen.service.DeepCopy()
	updated.Status.LoadBalancer.Ingress = act.publish.ingress
	updated.Status.Conditions = withCondition(updated.Status.Conditions, act.publish.ready)
	change(updated)
	f.seen.service = updated
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
		f := &fixture{seen: observed{service: service}, balancers: map[types.UID]bool{}}
		if rapid.Bool().Draw(t, "made") {
			old := service.DeepCopy()
			with := rapid.SampledFrom(sets).Draw(t, "made with")
			f.seen.made = madeFor(old, with, at("192.0.2.1"))
			if rapid.Bool().Draw(t, "certain") {
				f.seen.made.writtenTargets, f.seen.made.wholeAt = with, noon
			}
			f.seen.made.ensured = rapid.Bool().Draw(t, "ensured")
			f.balancers[old.UID] = true
		}
		if rapid.Bool().Draw(t, "vanished") {
			f.seen.service = nil
		}
		foreign := f.seen.made == nil && f.seen.service != nil && service.Spec.LoadBalancerClass != nil && *service.Spec.LoadBalancerClass == "theirs" &&
			conditionOf(service) == nil
		classes := Classes{Names: []string{"ours"}, Default: true}
		byDifference := rapid.Bool().Draw(t, "by difference")
		targets, elsewhere := rapid.SampledFrom(sets).Draw(t, "targets"), rapid.Bool().Draw(t, "elsewhere")
		for round := 0; ; round++ {
			intent := intentFor(f.seen.service, classes, f.seen.made != nil || f.seen.removed)
			want := desired{intent: intent, inputs: f.seen.service, settled: targets, latest: targets, byDifference: byDifference}
			plan := planFor(want, f.seen, noon)
			if len(plan) == 0 {
				if intent == withdraw && f.seen.service != nil && hasFinalizer(f.seen.service) {
					t.Fatal("the Service is not let go")
				}
				f.check(t, classes, elsewhere)
				return
			}
			if round == maxRounds-1 {
				t.Fatalf("still planning %v", verbs(plan))
			}
			if foreign && wantsBalancer(service) {
				t.Fatalf("%v is planned for a Service of another controller", verbs(plan))
			}
			for _, act := range plan {
				f.apply(t, act, targets, elsewhere)
			}
		}
	})
}

// check asserts the end of all plans.
func (f *fixture) check(t *rapid.T, classes Classes, elsewhere bool) {
	wants := f.seen.service != nil && intentFor(f.seen.service, classes, false) == provide
	for uid, exists := range f.balancers {
		if exists && (!wants || uid != f.seen.service.UID) {
			t.Fatalf("the load balancer of %s is left over", uid)
		}
	}
	switch {
	case f.seen.service == nil:
	case !slices.Contains(f.seen.service.Finalizers, "other/finalizer"):
		t.Fatal("the finalizer of another controller was removed")
	case wants && !elsewhere && (!f.balancers[f.seen.service.UID] || len(f.seen.service.Status.LoadBalancer.Ingress) == 0):
		t.Fatal("the Service has no load balancer, or does not show it")
	case wants && conditionOf(f.seen.service) == nil:
		t.Fatal("the Service has no condition")
	}
}
