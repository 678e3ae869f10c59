// Package metal measures Mooring beside MetalLB: it takes both through the same scenarios, and writes a page from the figures.
package metal

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
	"github.com/mooring-ccm/mooring/dev/bench/metal/rack"
)

// Report is what was measured.
type Report struct {
	Date    time.Time       `json:"date"`
	Machine figures.Machine `json:"machine"`
	// Router, Kubernetes and MetalLB are what ran besides Mooring.
	Router     string `json:"router"`
	Kubernetes string `json:"kubernetes"`
	MetalLB    string `json:"metalLB"`
	// Services is how many there are in the scenarios of many.
	Services int `json:"services"`
	// Figures are those of each repetition, in their order, by the name of a row and of a system.
	Figures map[string]map[rack.System][]float64 `json:"figures"`
}

// row is a row of the page.
type row struct {
	name, title string
	// unit is what follows a figure. Seconds is the one with decimals.
	unit string
	// only is the system that has figures of it; empty: all have.
	only rack.System
}

const seconds = "s"

// The names of rows.
const (
	newService   = "new-service"
	idleCPU      = "idle-cpu"
	idleWrites   = "idle-writes"
	death        = "death"
	fastDeath    = "death-fast-probes"
	failover     = "layer-2-death"
	back         = "return"
	afterCrash   = "new-service-after-crash"
	killAll      = "kill-all"
	manyAll      = "many-services"
	manyLag      = "many-services-lag"
	manyCPU      = "many-services-cpu"
	manyWrites   = "many-services-writes"
	manyMemory   = "many-services-memory"
	trailingCPU  = "trailing-cpu"
	trailing     = "trailing-writes"
	trailingNote = "The minute after that"
)

// of reports whether a system has figures of the row.
func (r row) of(system rack.System) bool { return r.only == "" || r.only == system }

// rows are those of the page.
func (r *Report) rows() []row {
	many := strconv.Itoa(r.Services) + " Services"
	return []row{
		{name: newService, title: "A new Service: route in the router's kernel", unit: seconds},
		{name: afterCrash, title: "A new Service right after the leader's container was killed", unit: seconds},
		{name: killAll, title: "All programs killed at once, and started again after 1 s: no route to an address for", unit: seconds},
		{name: death, title: "A node's network dies: its next hops are gone", unit: seconds},
		{name: fastDeath, title: fmt.Sprintf("The same, with probes each %d ms (`announcement.health`)", fastProbes.Milliseconds()), unit: seconds, only: rack.Mooring},
		{name: back, title: "The network is back: its next hops are there", unit: seconds},
		{name: failover, title: "Layer 2: the network of the machine dies that answers; the router knows another", unit: seconds},
		{name: manyAll, title: many + ", first creation until all routes are there", unit: seconds},
		{name: manyLag, title: "The same, after the last creation", unit: seconds},
		{name: manyCPU, title: "Processor time of the programs meanwhile", unit: seconds},
		{name: manyWrites, title: "Writes to the API server meanwhile", unit: ""},
		{name: manyMemory, title: "Memory of the programs then", unit: "MiB"},
		{name: trailing, title: trailingNote + ": writes", unit: ""},
		{name: trailingCPU, title: trailingNote + ": processor time", unit: seconds},
		{name: idleWrites, title: "A minute of idle: writes, those of the lease included", unit: ""},
		{name: idleCPU, title: "A minute of idle: processor time", unit: seconds},
	}
}

// add adds a figure of the latest repetition.
func (r *Report) add(name string, of rack.System, figure float64) {
	if r.Figures == nil {
		r.Figures = map[string]map[rack.System][]float64{}
	}
	if r.Figures[name] == nil {
		r.Figures[name] = map[rack.System][]float64{}
	}
	r.Figures[name][of] = append(r.Figures[name][of], figure)
}

// Repetitions is how often everything was measured: the least of all rows.
func (r *Report) Repetitions() int {
	least := -1
	for _, row := range r.rows() {
		for _, system := range rack.Systems() {
			if n := len(r.Figures[row.name][system]); row.of(system) && (least < 0 || n < least) {
				least = n
			}
		}
	}
	return least
}

// complete reports whether every row has a figure of each system that is to have one.
func (r *Report) complete() bool { return r.Repetitions() > 0 }

// median returns the middle one, or of an even number the mean of the two in the middle.
func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
