// Package runner takes the variants through the scenarios, one after the other.
package runner

import (
	"slices"

	"github.com/mooring-ccm/mooring/dev/bench/environment"
	"github.com/mooring-ccm/mooring/dev/bench/figures"
	"github.com/mooring-ccm/mooring/dev/bench/plugins"
)

// The programs, by the names of their folders in cmd.
const (
	referenceProgram = "reference-ccm"
	mooringProgram   = "mooring-ccm"
)

// tuned are the flags that an expert sets for the reference: how many calls and requests it may make at once. Periods stay as they are:
// they are paid for with the cloud's quota all day long.
var tuned = []string{
	"--concurrent-node-syncs=50", "--concurrent-node-status-updates=50", "--concurrent-node-lifecycle-syncs=50",
	"--concurrent-service-syncs=50", "--kube-api-qps=2000", "--kube-api-burst=4000",
}

// Variants returns all variants in the order in which they run.
func Variants() []figures.Variant {
	// The guard would rightly hold back the deletion of half of all nodes, which the reference does not.
	unguarded := []string{"--node-deletion-limit=100%"}
	return []figures.Variant{
		{Name: figures.ReferenceDefault, Title: "reference", Program: referenceProgram, Plugin: plugins.Plain},
		{Name: figures.MooringDefault, Title: "Mooring", Program: mooringProgram, Plugin: plugins.Plain},
		{Name: figures.ReferenceTuned, Title: "reference, tuned", Program: referenceProgram, Plugin: plugins.Plain, Flags: tuned},
		{
			Name: figures.MooringPlain, Title: "Mooring, same flags", Program: mooringProgram, Plugin: plugins.Plain,
			Flags: slices.Concat(tuned, unguarded),
		},
		{Name: figures.MooringBulk, Title: "Mooring, bulk plugin", Program: mooringProgram, Plugin: plugins.Bulk, Flags: unguarded},
	}
}

// common are the flags that every variant gets: all four controllers run.
func common() []string {
	return []string{"--allocate-node-cidrs=true", "--cluster-cidr=" + environment.ClusterCIDR}
}

// Names returns the names of variants.
func Names(variants []figures.Variant) []string {
	var names []string
	for _, variant := range variants {
		names = append(names, variant.Name)
	}
	return slices.Clip(names)
}
