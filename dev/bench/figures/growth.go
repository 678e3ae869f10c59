package figures

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// The scenarios of growing clusters.
const (
	GrowthJoin     = "grown-join"
	GrowthServices = "grown-services"
	GrowthRest     = "grown-rest"
	GrowthQuota    = "grown-quota"
)

const (
	// NodesAService is how many nodes a growing cluster has for each Service.
	NodesAService = 3
	// MostGrowth is the largest exponent by which a figure may grow. Linear growth is 1; the rest is for differences between runs.
	MostGrowth = 1.1
	// MostBytesANode is the most memory that a node, and its share of the Services, may cost.
	MostBytesANode = 12 << 10
	// RestPeriod is how long a rest is, and how often the manager does meanwhile what it does more rarely by default.
	RestPeriod = time.Minute
)

// restDefaults is how often the manager calls an operation by default that it calls once per RestPeriod in a rest.
var restDefaults = map[string]time.Duration{"ListInstances": 5 * time.Minute, "ListLoadBalancers": 10 * time.Minute}

// HourlyCalls is what a rest comes to in an hour with the default flags.
func (r Result) HourlyCalls() float64 {
	total := 0.0
	for operation, calls := range r.Calls {
		hourly := float64(calls.Received) * time.Hour.Seconds() / r.Seconds
		if usual, rarely := restDefaults[operation]; rarely {
			hourly *= RestPeriod.Seconds() / usual.Seconds()
		}
		total += hourly
	}
	return total
}

// Events is how many events were written, and how often one was counted again.
func (r Result) Events() int { return r.Writes["create events"] + r.Writes["patch events"] }

// Kind is what a figure is an amount of.
type Kind string

// The kinds of figures that may not grow faster than a cluster.
const (
	KindTime      Kind = "time"
	KindCalls     Kind = "cloud calls"
	KindRequests  Kind = "API requests"
	KindMemory    Kind = "memory"
	KindProcessor Kind = "processor time"
	KindTraffic   Kind = "traffic"
)

// growthKinds are in the order in which they are shown.
var growthKinds = []Kind{KindTime, KindCalls, KindRequests, KindMemory, KindProcessor, KindTraffic}

// UnitBytes is the unit of memory and traffic, and UnitExponent the unit of growth. Checks define the other units.
const (
	UnitBytes    = "bytes"
	UnitExponent = "exponent"
)

// figure is one number of a result.
type figure struct {
	says string
	kind Kind
	unit string
	of   func(Result) float64
}

// The figures of a scenario, in the order in which they are shown.
var (
	activity = []figure{
		{"time", KindTime, UnitSeconds, func(r Result) float64 { return r.Seconds }},
		{"cloud calls", KindCalls, UnitCalls, func(r Result) float64 { return float64(r.Received()) }},
		{"API writes, without events", KindRequests, UnitRequests, func(r Result) float64 { return float64(r.Written() - r.Events()) }},
		{"events written", KindRequests, UnitRequests, func(r Result) float64 { return float64(r.Events()) }},
		{"API reads", KindRequests, UnitRequests, func(r Result) float64 { return float64(r.Asked() - r.Written() - r.LeaseWrites) }},
		{"processor time", KindProcessor, UnitSeconds, func(r Result) float64 { return r.CPUSeconds }},
		{"memory at most", KindMemory, UnitBytes, func(r Result) float64 { return float64(r.PeakBytes) }},
		{"received from the API server", KindTraffic, UnitBytes, func(r Result) float64 { return float64(r.ReceivedBytes) }},
		{"sent to it", KindTraffic, UnitBytes, func(r Result) float64 { return float64(r.SentBytes) }},
	}
	refusals = figure{"of these refused", KindCalls, UnitCalls, func(r Result) float64 { return float64(r.Refused()) }}
	rest     = []figure{
		{"processor time of an hour", KindProcessor, UnitSeconds, func(r Result) float64 { return r.CPUSeconds * time.Hour.Seconds() / r.Seconds }},
		{"cloud calls an hour", KindCalls, UnitCalls, Result.HourlyCalls},
		{"API requests a minute", KindRequests, UnitRequests, func(r Result) float64 { return float64(r.Asked()) * time.Minute.Seconds() / r.Seconds }},
		{"received from the API server a minute", KindTraffic, UnitBytes, func(r Result) float64 {
			return float64(r.ReceivedBytes) * time.Minute.Seconds() / r.Seconds
		}},
		{"memory", KindMemory, UnitBytes, func(r Result) float64 { return float64(r.ResidentBytes) }},
		{"of this live on the heap", KindMemory, UnitBytes, func(r Result) float64 { return float64(r.LiveBytes) }},
	}
)

// figuresOf returns the figures of a scenario of growing clusters.
func figuresOf(scenario string) []figure {
	switch scenario {
	case GrowthRest:
		return rest
	case GrowthQuota:
		return append(append(activity[:2:2], refusals), activity[2:]...)
	default:
		return activity
	}
}

// Curve is one figure over growing clusters.
type Curve struct {
	Scenario, Variant string
	// Says is what the figure is, of a Kind and in a Unit.
	Says string
	Kind Kind
	Unit string
	// Points are by growing clusters.
	Points []Point
}

// Point is a figure of a cluster with so many nodes.
type Point struct {
	Nodes int
	Value float64
	// Open says that the scenario was given up, so the value says little.
	Open bool
}

// Exponent is by which power of the number of nodes the figure grows, from the smallest cluster to the largest: 1 is linear, and 0 does not
// grow. It is false when that cannot be said.
func (c Curve) Exponent() (float64, bool) {
	if len(c.Points) < 2 {
		return 0, false
	}
	first, last := c.Points[0], c.Points[len(c.Points)-1]
	if first.Value == last.Value {
		return 0, !first.Open && !last.Open
	}
	if first.Open || last.Open || first.Value <= 0 || last.Value <= 0 || first.Nodes == last.Nodes {
		return 0, false
	}
	return math.Log(last.Value/first.Value) / math.Log(float64(last.Nodes)/float64(first.Nodes)), true
}

// UpperHalf is the curve from its middle on. What a figure has that does not grow, such as the memory of an empty manager, hides less of what
// does grow there.
func (c Curve) UpperHalf() Curve {
	c.Points = c.Points[(len(c.Points)-1)/2:]
	if len(c.Points) < 2 {
		c.Points = nil
	}
	return c
}

// Slope is by how much the figure grows for each node, from the smallest cluster to the largest. It is false when that cannot be said.
func (c Curve) Slope() (float64, bool) {
	if _, known := c.Exponent(); !known {
		return 0, false
	}
	first, last := c.Points[0], c.Points[len(c.Points)-1]
	return (last.Value - first.Value) / float64(last.Nodes-first.Nodes), true
}

// Grown returns the results of a scenario by growing clusters.
func (r Report) Grown(scenario string) []Result {
	var results []Result
	for _, result := range r.Results {
		if result.Scenario == scenario {
			results = append(results, result)
		}
	}
	return results
}

// Curves returns all figures of a scenario of growing clusters. None if it has not run.
func (r Report) Curves(scenario string) []Curve {
	results := r.Grown(scenario)
	if len(results) == 0 {
		return nil
	}
	var curves []Curve
	for _, one := range figuresOf(scenario) {
		curve := Curve{Scenario: scenario, Variant: results[0].Variant, Says: one.says, Kind: one.kind, Unit: one.unit}
		for _, result := range results {
			curve.Points = append(curve.Points, Point{Nodes: result.Nodes, Value: one.of(result), Open: !result.Complete})
		}
		curves = append(curves, curve)
	}
	return curves
}

// GrowthChecks compares a report about growing clusters with all targets. What was not measured is left out.
func GrowthChecks(r Report) []Check {
	var checks []Check
	for _, kind := range growthKinds {
		checks = append(checks, r.growthOf(kind)...)
	}
	checks = append(checks, r.bytesANode()...)
	size := r.Setup.Size
	for _, result := range r.Grown(GrowthQuota) {
		size.QuotaNodes = result.Nodes
		floor := QuotaFloor(size)
		check := Check{
			Target: "growth-quota", Variant: result.Variant, Want: 1.2 * floor, Got: result.Seconds, Unit: UnitSeconds,
			Says: fmt.Sprintf("Quota, %d nodes: within 20 %% of the floor of %.1f s", result.Nodes, floor),
		}
		if !result.Complete {
			check.Bound = AtLeast
		}
		checks = append(checks, check)
	}
	return checks
}

// growthOf compares the figure of a kind that grows fastest with the target, for each scenario in which it is known.
func (r Report) growthOf(kind Kind) []Check {
	var checks []Check
	for _, scenario := range []string{GrowthJoin, GrowthServices, GrowthRest, GrowthQuota} {
		var fastest *Check
		for _, curve := range r.Curves(scenario) {
			exponent, known := curve.Exponent()
			if curve.Kind != kind || !known || fastest != nil && exponent <= fastest.Got {
				continue
			}
			of := strings.ReplaceAll(string(kind), " ", "-")
			target := "growth-" + of
			switch scenario {
			case GrowthQuota:
				target = "growth-quota" // what it grows by has one reason
			case GrowthServices:
				target = "growth-services-" + of
			}
			fastest = &Check{
				Target: target, Variant: curve.Variant, Want: MostGrowth, Got: exponent,
				Unit: UnitExponent, Says: fmt.Sprintf("%s: %s linear or better (%s)", growthTitles[scenario], kind, curve.Says),
			}
		}
		if fastest != nil {
			checks = append(checks, *fastest)
		}
	}
	return checks
}

// growthTitles are what the scenarios of growing clusters are called in targets.
var growthTitles = map[string]string{GrowthJoin: "Join", GrowthServices: "Services", GrowthRest: "Rest", GrowthQuota: "Quota"}

// bytesANode is the target of what a node costs in memory.
func (r Report) bytesANode() []Check {
	var checks []Check
	for _, measured := range []struct{ scenario, figure, target, says string }{
		{GrowthRest, "of this live on the heap", "growth-live", "live on the heap, at rest"},
		{GrowthRest, "memory", "growth-resident", "resident, at rest"},
		{GrowthServices, "memory at most", "growth-resident", "resident at most, while Services come"},
	} {
		for _, curve := range r.Curves(measured.scenario) {
			if slope, known := curve.Slope(); known && curve.Says == measured.figure {
				checks = append(checks, Check{
					Target: measured.target, Variant: curve.Variant, Want: MostBytesANode, Got: slope, Unit: UnitBytes,
					Says: "A node and its share of the Services: 12 KiB of memory " + measured.says,
				})
			}
		}
	}
	return checks
}
