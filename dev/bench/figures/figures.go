// Package figures is what the benchmark measures, and the arithmetic on it. It is pure: the same figures always make the
// same report.
package figures

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// The variants, in the order in which they run and are shown. Each of ours stands behind the one of the reference that it is compared with;
// the last one has another plugin.
const (
	ReferenceDefault = "reference"
	MooringDefault   = "mooring-default"
	ReferenceTuned   = "reference-tuned"
	MooringPlain     = "mooring-plain"
	MooringBulk      = "mooring-bulk"
)

// Opponent returns the variant of the reference that one of ours is compared with: neither has flags, or both are tuned.
func Opponent(variant string) string {
	if variant == MooringDefault {
		return ReferenceDefault
	}
	return ReferenceTuned
}

// The scenarios in which the same nodes join, undisturbed and while Services are throttled.
const (
	Join300      = "join-300"
	Throttled300 = "throttled-300"
)

// The scenarios in which nodes fall silent: with the flags of each variant, with one question at a time, and without a denial time.
const (
	NotReady       = "notready-1000"
	NotReadyOne    = "notready-one-1000"
	NotReadyAtOnce = "notready-at-once-1000"
)

// variations are scenarios of which another one is the rule. No sum counts them.
var variations = []string{NotReadyOne, NotReadyAtOnce}

// JoinRouted is the scenario in which nodes need a route besides their initialization.
const JoinRouted = "join-routed-1000"

// Report is everything that one run of the benchmark measured. It is what the JSON file holds.
type Report struct {
	// Began is when the benchmark began, and Seconds how long it took.
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	// Remark says what is particular about these figures, for example that some were measured again. Empty: nothing.
	Remark string `json:"remark,omitempty"`
	// Machine is where it ran.
	Machine Machine `json:"machine"`
	// Setup is what was run, and against what.
	Setup Setup `json:"setup"`
	// Results has one entry for each scenario and variant that ran, in that order.
	Results []Result `json:"results"`
}

// Machine is the computer that everything shared: the control plane, the simulated cloud and the manager.
type Machine struct {
	CPU         string `json:"cpu"`
	Cores       int    `json:"cores"`
	MemoryBytes int64  `json:"memoryBytes"`
	Kernel      string `json:"kernel"`
	Go          string `json:"go"`
}

// Setup is what the variants have in common, and their flags.
type Setup struct {
	Kubernetes string        `json:"kubernetes"`
	Reference  string        `json:"reference"`
	Latency    time.Duration `json:"latency"`
	PageSize   int           `json:"pageSize"`
	// Trail is how long at most, after the end of a scenario, what the manager still does is counted.
	Trail time.Duration `json:"trail"`
	// BalancerWrites is how many changes of load balancers the bulk plugin declares that the cloud bears at once.
	BalancerWrites int       `json:"balancerWrites"`
	Size           Size      `json:"size"`
	Variants       []Variant `json:"variants"`
	// Common are the flags that every variant gets, without the flags for files and ports.
	Common []string `json:"common"`
}

// Size is how large the scenarios are.
type Size struct {
	Nodes      int `json:"nodes"`
	ManyNodes  int `json:"manyNodes"`
	QuotaNodes int `json:"quotaNodes"`
	Services   int `json:"services"`
	// QuotaRate is how many calls a second the quota grants, and QuotaBurst how many at once.
	QuotaRate  float64 `json:"quotaRate"`
	QuotaBurst int     `json:"quotaBurst"`
	// ThrottledNodes is how many nodes join while as many Services as ThrottledServices are refused a load balancer. Each of these
	// has been refused as often as Refusals says before the nodes join.
	ThrottledNodes    int `json:"throttledNodes"`
	ThrottledServices int `json:"throttledServices"`
	Refusals          int `json:"refusals"`
	// Rounds is how many times these nodes join, and those of other scenarios of which differences of a tenth matter.
	Rounds int `json:"rounds"`
	// Growth are the numbers of nodes of growing clusters, and QuotaGrowth those under a quota. Targets is how many of the nodes of a growing
	// cluster are behind load balancers, at most.
	Growth      []int `json:"growth,omitempty"`
	QuotaGrowth []int `json:"quotaGrowth,omitempty"`
	Targets     int   `json:"targets,omitempty"`
	// Idle and Steady are how long nothing happens in the scenarios of those names.
	Idle   time.Duration `json:"idle"`
	Steady time.Duration `json:"steady"`
}

// Variant is a program with flags and a plugin.
type Variant struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Program string   `json:"program"`
	Plugin  string   `json:"plugin"`
	Flags   []string `json:"flags"`
}

// Result is what one variant did in one scenario.
type Result struct {
	Scenario string `json:"scenario"`
	Variant  string `json:"variant"`
	// Seconds is the time from the scenario's first event to its end, or to the limit that was reached before. If the scenario
	// happens in rounds, it is their median.
	Seconds float64 `json:"seconds"`
	// Rounds are the times of the rounds, in their order; empty if there is one only. The last one may have been given up.
	Rounds []float64 `json:"rounds,omitempty"`
	// InitializedRounds is when all nodes were initialized, round by round, in the scenario that waits for their routes as well.
	InitializedRounds []float64 `json:"initializedRounds,omitempty"`
	// Complete says that the end was reached. Done of Of things were through.
	Complete bool `json:"complete"`
	Done     int  `json:"done"`
	Of       int  `json:"of"`
	// Calls are what the cloud was asked, by operation.
	Calls map[string]Calls `json:"calls"`
	// Writes are the API server's writes by verb and resource, without renewals of the election's lease.
	Writes map[string]int `json:"writes"`
	// Reads are what else the API server was asked, by verb and resource: watches by when they ended.
	Reads map[string]int `json:"reads,omitempty"`
	// LeaseWrites are the writes of the election's lease.
	LeaseWrites int `json:"leaseWrites"`
	// CPUSeconds is the processor time of the manager's processes, user and system.
	CPUSeconds float64 `json:"cpuSeconds"`
	// PeakBytes is the largest resident memory of a process of the manager during the scenario, and ResidentBytes what it has at the end.
	PeakBytes     int64 `json:"peakBytes"`
	ResidentBytes int64 `json:"residentBytes,omitempty"`
	// LiveBytes is what was reachable on its heap when it was last collected. Only scenarios of growth have it, and the following.
	LiveBytes int64 `json:"liveBytes,omitempty"`
	// ReceivedBytes and SentBytes are what the manager received from the API server and sent to it: as they were on the wire, encrypted.
	ReceivedBytes int64 `json:"receivedBytes,omitempty"`
	SentBytes     int64 `json:"sentBytes,omitempty"`
	// Nodes and Services are how many there are.
	Nodes    int `json:"nodes,omitempty"`
	Services int `json:"services,omitempty"`
	// LeaseSeconds is when the next leader had the lease, in the scenarios where the leader stops.
	LeaseSeconds float64 `json:"leaseSeconds,omitempty"`
}

// Calls is how often an operation of the cloud was called.
type Calls struct {
	// Received counts every call, each page of a list included. Refused counts throttled calls (429), and Failed counts calls that got another error.
	// Received includes both.
	Received int64 `json:"received"`
	Refused  int64 `json:"refused,omitempty"`
	Failed   int64 `json:"failed,omitempty"`
}

// Questions is how many calls about instances the cloud got, pages of lists included.
func (r Result) Questions() int64 {
	var total int64
	for operation, count := range r.Calls {
		if strings.Contains(operation, "Instance") {
			total += count.Received
		}
	}
	return total
}

// Received is how many calls the cloud got in all.
func (r Result) Received() int64 {
	return sum(r.Calls, func(c Calls) int64 { return c.Received })
}

// Refused is how many calls the cloud throttled.
func (r Result) Refused() int64 {
	return sum(r.Calls, func(c Calls) int64 { return c.Refused })
}

// Failed is how many calls the cloud answered with an error and did not throttle.
func (r Result) Failed() int64 {
	return sum(r.Calls, func(c Calls) int64 { return c.Failed })
}

// Written is how many writes the API server got, without those of the election's lease.
func (r Result) Written() int {
	total := 0
	for _, count := range r.Writes {
		total += count
	}
	return total
}

// Asked is how many requests the API server got, reads and renewals of the election's lease included.
func (r Result) Asked() int {
	total := r.Written() + r.LeaseWrites
	for _, count := range r.Reads {
		total += count
	}
	return total
}

func sum(calls map[string]Calls, of func(Calls) int64) int64 {
	var total int64
	for _, count := range calls {
		total += of(count)
	}
	return total
}

// Median returns the middle one of some numbers, the lower of two, and 0 of none.
func Median(numbers []float64) float64 {
	if len(numbers) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(numbers))[(len(numbers)-1)/2]
}

// Find returns the result of a scenario and a variant.
func (r Report) Find(scenario, variant string) (Result, bool) {
	i := slices.IndexFunc(r.Results, func(one Result) bool { return one.Scenario == scenario && one.Variant == variant })
	if i < 0 {
		return Result{}, false
	}
	return r.Results[i], true
}

// Scenarios returns the names of the scenarios that ran, in their order.
func (r Report) Scenarios() []string {
	var names []string
	for _, result := range r.Results {
		if !slices.Contains(names, result.Scenario) {
			names = append(names, result.Scenario)
		}
	}
	return names
}

// VariantNames returns the names of the variants that ran, in the order of the setup.
func (r Report) VariantNames() []string {
	var names []string
	for _, variant := range r.Setup.Variants {
		if slices.ContainsFunc(r.Results, func(one Result) bool { return one.Variant == variant.Name }) {
			names = append(names, variant.Name)
		}
	}
	return names
}

// Sum is what a variant used over some scenarios.
type Sum struct {
	Variant    string
	CPUSeconds float64
	PeakBytes  int64
	Calls      int64
	Refused    int64
	Writes     int
}

// Sums adds up each variant's figures over the scenarios that all went through, but for the variants without flags, which go through a few only.
func (r Report) Sums() []Sum {
	return r.sumsOf(slices.DeleteFunc(r.VariantNames(), func(name string) bool { return name == ReferenceDefault || name == MooringDefault }))
}

// sumsOf adds up the figures of some variants over the scenarios that each of them went through.
func (r Report) sumsOf(variants []string) []Sum {
	ran := map[string]int{}
	for _, result := range r.Results {
		if slices.Contains(variants, result.Variant) && !slices.Contains(variations, result.Scenario) {
			ran[result.Scenario]++
		}
	}
	var sums []Sum
	for _, name := range variants {
		total := Sum{Variant: name}
		for _, result := range r.Results {
			if result.Variant == name && ran[result.Scenario] == len(variants) {
				total.CPUSeconds += result.CPUSeconds
				total.PeakBytes = max(total.PeakBytes, result.PeakBytes)
				total.Calls += result.Received()
				total.Refused += result.Refused()
				total.Writes += result.Written()
			}
		}
		sums = append(sums, total)
	}
	return sums
}

// Kinds returns what a map counts, the most frequent first and equals by name.
func Kinds[N int | int64](counts map[string]N) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		switch {
		case counts[a] > counts[b], counts[a] == counts[b] && a < b:
			return -1
		case a == b:
			return 0
		default:
			return 1
		}
	})
}

// Ratio is how the time of one result compares with another's.
type Ratio struct {
	// Value is the one divided by the other.
	Value float64
	// Bound says that Value is only a bound: AtMost when the other did not end, AtLeast when the one did not.
	Bound Bound
}

// Bound says which way the true ratio can differ from the value.
type Bound int

// The bounds of a ratio.
const (
	Exact Bound = iota
	AtMost
	AtLeast
	// GivenUp says that there is no ratio, because neither ended. Only checks have it.
	GivenUp
)

// Compare divides one result's time by another's. It is false when that says nothing: neither ended, or there is no time.
func Compare(one, other Result) (Ratio, bool) {
	if other.Seconds == 0 || one.Seconds == 0 {
		return Ratio{}, false
	}
	ratio := Ratio{Value: one.Seconds / other.Seconds}
	switch {
	case one.Complete && other.Complete:
		return ratio, true
	case one.Complete:
		ratio.Bound = AtMost
		return ratio, true
	case other.Complete:
		ratio.Bound = AtLeast
		return ratio, true
	default:
		return Ratio{}, false
	}
}

// Disturbance is how a variant's time for nodes to join while Services are throttled compares with the same undisturbed. It is
// false when that says nothing.
func (r Report) Disturbance(variant string) (Ratio, bool) {
	disturbed, found := r.Find(Throttled300, variant)
	undisturbed, foundUndisturbed := r.Find(Join300, variant)
	if !found || !foundUndisturbed {
		return Ratio{}, false
	}
	return Compare(disturbed, undisturbed)
}
