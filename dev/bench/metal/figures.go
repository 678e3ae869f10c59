// Package metal measures Mooring beside MetalLB: it takes both through the same scenarios, and writes a page from the figures.
package metal

import (
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
}

const seconds = "s"

// The names of rows.
const (
	newService   = "new-service"
	idleCPU      = "idle-cpu"
	idleWrites   = "idle-writes"
	death        = "death"
	back         = "return"
	afterCrash   = "new-service-after-crash"
	killAll      = "kill-all"
	manyAll      = "many-services"
	manyLag      = "many-services-lag"
	manyCPU      = "many-services-cpu"
	manyWrites   = "many-services-writes"
	trailingCPU  = "trailing-cpu"
	trailing     = "trailing-writes"
	trailingNote = "The minute after that"
)

// rows are those of the page.
func (r *Report) rows() []row {
	many := strconv.Itoa(r.Services) + " Services"
	return []row{
		{newService, "A new Service: route in the router's kernel", seconds},
		{afterCrash, "A new Service right after the leader's container was killed", seconds},
		{killAll, "All programs killed at once, and started again after 1 s: no route to an address for", seconds},
		{death, "A node's network dies: its next hops are gone", seconds},
		{back, "The network is back: its next hops are there", seconds},
		{manyAll, many + ", first creation until all routes are there", seconds},
		{manyLag, "The same, after the last creation", seconds},
		{manyCPU, "Processor time of the programs meanwhile", seconds},
		{manyWrites, "Writes to the API server meanwhile", ""},
		{trailing, trailingNote + ": writes", ""},
		{trailingCPU, trailingNote + ": processor time", seconds},
		{idleWrites, "A minute of idle: writes, those of the lease included", ""},
		{idleCPU, "A minute of idle: processor time", seconds},
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
			if n := len(r.Figures[row.name][system]); least < 0 || n < least {
				least = n
			}
		}
	}
	return least
}

// complete reports whether every row has a figure of each system.
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
