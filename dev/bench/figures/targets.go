package figures

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Check compares what was reached with a target that the project has set itself.
type Check struct {
	// Target names the target, the same in every run, and Says what it is in words.
	Target, Says string
	// Variant is who has to reach it.
	Variant string
	// Want and Got are the bound and what was measured, in Unit.
	Want, Got float64
	Unit      string
	// Bound says that Got is only a bound, because what it is compared with was given up.
	Bound Bound
}

// Met reports whether the target was reached.
func (c Check) Met() bool { return c.Got <= c.Want && c.Bound != AtLeast && c.Bound != GivenUp }

// The units of checks.
const (
	UnitTimes   = "times"
	UnitSeconds = "s"
	UnitCalls   = "calls"
	// UnitRequests are those of the API server.
	UnitRequests = "requests"
	UnitUpdates  = "updates"
)

// ours are the variants that have to reach the targets.
var ours = []string{MooringDefault, MooringPlain, MooringBulk}

// noise is by how much the times of two runs may differ without a reason.
const noise = 1.05

// Checks compares a report with all targets. What was not measured is left out.
func Checks(r Report) []Check {
	var checks []Check
	for _, variant := range ours {
		if variant != MooringDefault {
			checks = append(checks, r.comparedWithTuned(variant)...)
		}
		checks = append(checks, r.behind(variant)...)
		checks = append(checks, r.absolute(variant)...)
		if variant != MooringDefault {
			checks = append(checks, r.overAll(variant)...)
		}
	}
	return checks
}

// comparedWithTuned are the targets beside the tuned reference.
func (r Report) comparedWithTuned(variant string) []Check {
	var checks []Check
	for _, compared := range []struct {
		target, scenario, says string
		most                   float64
	}{
		{"nodes", "join-1000", "1,000 nodes: nine tenths of the tuned reference's time", 0.9},
		{"nodes-routed", JoinRouted, "1,000 nodes with routes: nine tenths of the tuned reference's time", 0.9},
		{"many-nodes", "join-5000", "5,000 nodes: nine tenths of the tuned reference's time", 0.9},
		{"routes", "routes-1000", "Routes: half of the tuned reference's time", 0.5},
		{"notready-one", NotReadyOne, "Silent nodes, one question at a time: 1.4 times the reference's time", 1.4},
		{"notready-at-once", NotReadyAtOnce, "Silent nodes, no denial time: 1.4 times the tuned reference's time", 1.4},
	} {
		checks = append(checks, r.ratio(variant, compared.scenario, compared.most, Check{
			Target: compared.target, Says: compared.says, Variant: variant,
		})...)
	}
	checks = append(checks, r.initializedBeforeRoutes(variant)...)
	checks = append(checks, r.comparedWithUndisturbed(variant)...)
	return append(checks, r.silentNodes(variant)...)
}

// behind is the target that the reference with the same flags is nowhere faster, but for silent nodes: a second question has its price there.
// It is shown for the scenario that is worst.
func (r Report) behind(variant string) []Check {
	var worst []Check
	for _, scenario := range r.Scenarios() {
		if slices.Contains([]string{NotReady, NotReadyOne, NotReadyAtOnce, "idle", "idle-replicas", "steady-5000"}, scenario) {
			continue
		}
		found := r.ratio(variant, scenario, noise, Check{
			Target: "behind", Says: "Nowhere behind the reference by more than the 5 % that two runs differ by", Variant: variant,
		})
		if len(found) == 0 {
			continue
		}
		found[0].Says += ", worst in `" + scenario + "`"
		if len(worst) == 0 || found[0].Got > worst[0].Got || found[0].Bound == GivenUp {
			worst = found
		}
	}
	return worst
}

// silentNodes are the targets of nodes of which half are gone, with the default time between two denials.
func (r Report) silentNodes(variant string) []Check {
	one, found := r.Find(NotReady, variant)
	tuned, foundTuned := r.Find(NotReady, ReferenceTuned)
	if !found {
		return nil
	}
	bound := Exact
	if !one.Complete {
		bound = AtLeast
	}
	checks := []Check{{
		Target: "notready-questions", Says: "Silent nodes: at most 2,200 questions about instances", Variant: variant,
		Want: 2200, Got: float64(one.Questions()), Unit: UnitCalls, Bound: bound,
	}}
	if !foundTuned || !tuned.Complete {
		return checks
	}
	return append(checks, Check{
		Target: "notready", Says: "Silent nodes: at most 15 s longer than the tuned reference", Variant: variant,
		Want: tuned.Seconds + 15, Got: one.Seconds, Unit: UnitSeconds, Bound: bound,
	})
}

// ratio completes a check that compares the time of a variant with the time of its opponent. It returns no check unless both were measured.
func (r Report) ratio(variant, scenario string, most float64, check Check) []Check {
	one, found := r.Find(scenario, variant)
	other, foundOther := r.Find(scenario, Opponent(variant))
	ratio, known := Compare(one, other)
	if !found || !foundOther {
		return nil
	}
	if !known && !one.Complete { // neither variant finished, and a missing check would hide it
		ratio, known = Ratio{Bound: GivenUp}, true
	}
	if !known {
		return nil
	}
	check.Want, check.Got, check.Bound, check.Unit = most, ratio.Value, ratio.Bound, UnitTimes
	return []Check{check}
}

// initializedBeforeRoutes is the target of nodes that wait while routes are made to others.
func (r Report) initializedBeforeRoutes(variant string) []Check {
	one, _ := r.Find(JoinRouted, variant)
	tuned, _ := r.Find(JoinRouted, ReferenceTuned)
	if len(one.InitializedRounds) == 0 || len(tuned.InitializedRounds) == 0 {
		return nil
	}
	return []Check{{
		Target: "nodes-before-routes", Says: "1,000 nodes with routes: initialized in nine tenths of the tuned reference's time", Variant: variant,
		Want: 0.9, Got: Median(one.InitializedRounds) / Median(tuned.InitializedRounds), Unit: UnitTimes,
	}}
}

// comparedWithUndisturbed is the target of nodes that join while Services are throttled.
func (r Report) comparedWithUndisturbed(variant string) []Check {
	ratio, known := r.Disturbance(variant)
	if !known {
		return nil
	}
	return []Check{{
		Target: "throttled", Says: "Throttled Services: nodes join in at most 1.2 times the undisturbed time", Variant: variant,
		Want: 1.2, Got: ratio.Value, Bound: ratio.Bound, Unit: UnitTimes,
	}}
}

// absolute are the targets that need no other variant.
func (r Report) absolute(variant string) []Check {
	size := r.Setup.Size
	var checks []Check
	add := func(target, says string, want, got float64, unit string, complete bool) {
		check := Check{Target: target, Says: says, Variant: variant, Want: want, Got: got, Unit: unit}
		if !complete {
			check.Bound = AtLeast
		}
		checks = append(checks, check)
	}
	if one, found := r.Find(NotReady, variant); found {
		updates := float64(one.Calls["UpdateLoadBalancer"].Received) / float64(size.Services)
		add("notready-updates", "Silent nodes: at most 2 updates per balancer", 2, updates, UnitUpdates, one.Complete)
	}
	if one, found := r.Find("quota-600", variant); found {
		floor := QuotaFloor(size)
		add("quota", fmt.Sprintf("Quota: within 20 %% of the floor of %.1f s that it sets for one call a node", floor),
			1.2*floor, one.Seconds, UnitSeconds, one.Complete)
		add("quota-refused", "Quota: under 10 refused calls", 9, float64(one.Refused()), UnitCalls, one.Complete)
	}
	if one, found := r.Find("leader-sigterm", variant); found {
		add("sigterm", "SIGTERM: under 1.5 s", 1.5, one.Seconds, UnitSeconds, one.Complete)
	}
	if one, found := r.Find("idle", variant); found {
		add("idle", "Idle: at most 2 cloud calls a minute", 2, float64(one.Received())*60/one.Seconds, UnitCalls, one.Complete)
	}
	if one, found := r.Find("idle-replicas", variant); found {
		if other, found := r.Find("idle-replicas", ReferenceDefault); found && len(other.Reads) > 0 {
			add("idle-requests", "Idle: two replicas ask the API server no more than those of the default reference",
				float64(other.Asked()), float64(one.Asked()), UnitRequests, one.Complete)
		}
	}
	if variant != MooringBulk {
		return checks
	}
	if one, found := r.Find("join-5000", variant); found {
		pages := math.Ceil(float64(size.ManyNodes) / float64(r.Setup.PageSize))
		add("bulk-calls", "Bulk plugin: 5,000 nodes with at most pages + 2 cloud calls", pages+2, float64(one.Received()), UnitCalls,
			one.Complete)
	}
	if one, found := r.Find("steady-5000", variant); found {
		hourly := float64(one.Received()) * time.Hour.Seconds() / one.Seconds
		add("bulk-steady", "Bulk plugin: steady state at 5,000 nodes at most 200 calls an hour", 200, hourly, UnitCalls, one.Complete)
	}
	return checks
}

// overAll are the targets for the manager's own use of resources. They sum up the scenarios that both the variant and the tuned reference completed.
// The default reference does not run the most expensive scenarios.
func (r Report) overAll(variant string) []Check {
	sums := r.sumsOf([]string{variant, ReferenceTuned})
	one, other := sums[0], sums[1]
	if one.CPUSeconds == 0 || other.CPUSeconds == 0 {
		return nil
	}
	return []Check{
		{
			Target: "cpu", Says: "CPU over all: six tenths of the tuned reference", Variant: variant,
			Want: 0.6, Got: one.CPUSeconds / other.CPUSeconds, Unit: UnitTimes,
		},
		{
			Target: "memory", Says: "Peak memory over all: six tenths of the tuned reference", Variant: variant,
			Want: 0.6, Got: float64(one.PeakBytes) / float64(other.PeakBytes), Unit: UnitTimes,
		},
	}
}

// QuotaFloor is the least time, in seconds, in which a quota lets one call for each node through.
func QuotaFloor(size Size) float64 {
	return max(0, float64(size.QuotaNodes-size.QuotaBurst)/size.QuotaRate)
}
