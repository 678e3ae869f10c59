package view

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/mooring-ccm/mooring/internal/names"
)

// Manager is how the replica is that was asked for its metrics. A pointer is nil where it does not say: a standby says less.
type Manager struct {
	// Leads says whether it holds the lease.
	Leads *bool `json:"leads,omitempty"`
	// Instances are how many the cloud has, by what was last observed; Observation says how, by listing or by watch, and ObservedAt
	// when the cloud last answered.
	Instances   *int      `json:"instances,omitempty"`
	Observation string    `json:"observation,omitempty"`
	ObservedAt  time.Time `json:"observedAt,omitzero"`
	// CallsPerSecond are calls to the cloud, of the last moments. RateLimit is how many a second are let in; 0 is no limit.
	CallsPerSecond *float64 `json:"callsPerSecond,omitempty"`
	RateLimit      float64  `json:"rateLimit"`
	InFlight       int      `json:"callsInFlight"`
	Waiting        int      `json:"callsWaiting"`
	// Refusals are how many calls the cloud has refused for its quota since the process began.
	Refusals int `json:"refusals"`
	// RoutesMissing is nil where no controller makes routes; RouteLimit is 0 if the cloud declares none.
	RoutesMissing *int `json:"routesMissing,omitempty"`
	Routes        *int `json:"routes,omitempty"`
	RouteLimit    int  `json:"routeLimit,omitempty"`
	// Targets are the nodes that are targets of every load balancer.
	Targets *int `json:"targets,omitempty"`
	// Drift is how many load balancers were found gone or changed since the process began. Orphans are the load balancers that belong to no
	// Service, by owner: this_cluster, or unknown.
	Drift   map[string]int `json:"drift,omitempty"`
	Orphans map[string]int `json:"orphans,omitempty"`
	// Held are nodes that are kept although the cloud denies their instances, by reason.
	Held map[string]int `json:"heldNodes,omitempty"`
	// Deletions are the deletions of nodes that count against DeletionLimit now.
	Deletions     int `json:"deletionsInWindow"`
	DeletionLimit int `json:"deletionLimit"`
}

func managerOf(seen Seen) *Manager {
	of := metrics(seen.Metrics)
	m := &Manager{
		Instances: of.count(names.MetricInventoryInstances),
		RateLimit: of.sum(names.MetricCloudRateLimit),
		InFlight:  int(of.sum(names.MetricCloudCallsInFlight)), Waiting: int(of.sum(names.MetricCloudCallsWaiting)),
		Refusals:      int(of.sum(names.MetricCloudRefusals)),
		RoutesMissing: of.count(names.MetricRoutesMissing), Routes: of.count(names.MetricRoutesListed), RouteLimit: int(of.sum(names.MetricRouteLimit)),
		Targets:   of.count(names.MetricServiceTargets),
		Drift:     of.by(names.MetricServiceDrift, "kind"),
		Orphans:   of.by(names.MetricServiceOrphans, "owner"),
		Held:      of.by(names.MetricNodesHeld, "reason"),
		Deletions: int(of.sum(names.MetricDeletionsInWindow)),

		DeletionLimit: int(of.sum(names.MetricDeletionLimit)),
	}
	if leads := of.count("leader_election_master_status"); leads != nil {
		holds := *leads > 0
		m.Leads = &holds
	}
	// The watch is current when it says so; a listing when it began. Whichever is newer is what decisions rest on.
	listed, watched := of.sum(names.MetricInventoryListed), of.sum(names.MetricInventoryWatched)
	if newest := max(listed, watched); newest > 0 {
		m.ObservedAt = time.UnixMilli(int64(newest * 1000)).UTC()
		m.Observation = "listing"
		if watched > listed {
			m.Observation = "watch"
		}
	}
	if seen.Before != nil && seen.Interval > 0 {
		const calls = names.MetricCloudCalls
		rate := max(0, of.sum(calls)-metrics(seen.Before).sum(calls)) / seen.Interval.Seconds()
		m.CallsPerSecond = &rate
	}
	return m
}

// metrics are those of a process, by name.
type metrics map[string]*dto.MetricFamily

// reading is the value of a counter or of a gauge.
func reading(of *dto.Metric) float64 { return of.GetCounter().GetValue() + of.GetGauge().GetValue() }

// sum adds up a metric over its labels, and returns zero if the metric is missing.
func (m metrics) sum(name string) (sum float64) {
	for _, one := range m[name].GetMetric() {
		sum += reading(one)
	}
	return sum
}

// count is a sum that is a number of things; nil if there is no such metric.
func (m metrics) count(name string) *int {
	if len(m[name].GetMetric()) == 0 {
		return nil
	}
	count := int(m.sum(name))
	return &count
}

// by returns what of a metric is not zero, by a label.
func (m metrics) by(name, label string) map[string]int {
	found := map[string]int{}
	for _, one := range m[name].GetMetric() {
		for _, pair := range one.GetLabel() {
			if pair.GetName() == label && reading(one) != 0 {
				found[pair.GetValue()] += int(reading(one))
			}
		}
	}
	return found
}

func (m *Manager) write(out *strings.Builder, style Style, now time.Time) {
	line := func(name, text string, bad bool) {
		with := none
		if bad {
			with = red
		}
		fmt.Fprintf(out, "%s: %s\n", name, style.paint(Printable(text), with))
	}
	if m.Leads != nil && !*m.Leads {
		line("Asked", "a standby; the leader knows more", false)
	}
	line("Cloud", m.observed(now), m.ObservedAt.IsZero())
	line("Calls", m.quota(), m.Waiting > 0)
	if m.Routes != nil {
		line("Routes", m.routes(), m.RoutesMissing != nil && *m.RoutesMissing > 0)
	}
	if m.Targets != nil {
		line("Targets of each load balancer", strconv.Itoa(*m.Targets), *m.Targets == 0)
	}
	if len(m.Drift) > 0 {
		line("Drift", "load balancers found "+counted(m.Drift)+" since the start", false)
	}
	if len(m.Orphans) > 0 {
		line("Orphans", "load balancers of no Service: "+counted(m.Orphans)+"; see mooring orphans", true)
	}
	if len(m.Held) > 0 || m.Deletions > 0 {
		line("Deletions", fmt.Sprintf("%d of %d allowed now; held: %s", m.Deletions, m.DeletionLimit, counted(m.Held)), len(m.Held) > 0)
	}
}

func (m *Manager) observed(now time.Time) string {
	if m.ObservedAt.IsZero() {
		return "no listing and no watch yet; nodes may be asked for one by one"
	}
	instances := "instances"
	if m.Instances != nil {
		instances = fmt.Sprintf("%d instances", *m.Instances)
	}
	return fmt.Sprintf("%s by %s, %s old", instances, m.Observation, age(now, m.ObservedAt))
}

func (m *Manager) quota() string {
	var parts []string
	if m.CallsPerSecond != nil {
		parts = append(parts, fmt.Sprintf("%.1f a second", *m.CallsPerSecond))
	}
	if m.RateLimit > 0 {
		parts = append(parts, fmt.Sprintf("limit %.1f a second", m.RateLimit))
	}
	parts = append(parts, fmt.Sprintf("%d under way", m.InFlight), fmt.Sprintf("%d waiting", m.Waiting),
		fmt.Sprintf("%d refused since the start", m.Refusals))
	return strings.Join(parts, ", ")
}

func (m *Manager) routes() string {
	text := fmt.Sprintf("%d in the cloud", *m.Routes)
	if m.RouteLimit > 0 {
		text += fmt.Sprintf(" of %d that it takes", m.RouteLimit)
	}
	if m.RoutesMissing != nil {
		text += fmt.Sprintf(", %d missing", *m.RoutesMissing)
	}
	return text
}

// counted shows numbers by name.
func counted(by map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%d %s", by[name], name))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
