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

// Variants returns all variants in the order in which they run.
func Variants(size figures.Size) []figures.Variant {
	// The guard would rightly hold back the deletion of half of all nodes, and any deletion for half a minute, which the reference does
	// not.
	unguarded := []string{"--node-deletion-limit=100%", "--node-deletion-min-denial-time=0s"}
	if size.MinimumAge != DefaultMinimumAge {
		unguarded = append(unguarded, "--node-deletion-min-age="+size.MinimumAge.String())
	}
	return []figures.Variant{
		{Name: figures.ReferenceDefault, Title: "reference", Program: referenceProgram, Plugin: plugins.Plain},
		{
			Name: figures.ReferenceTuned, Title: "reference, tuned", Program: referenceProgram, Plugin: plugins.Plain,
			Flags: []string{
				"--concurrent-node-syncs=50", "--concurrent-service-syncs=50", "--concurrent-node-status-updates=50",
				"--kube-api-qps=2000", "--kube-api-burst=4000",
			},
		},
		{Name: figures.MooringPlain, Title: "Mooring, plain plugin", Program: mooringProgram, Plugin: plugins.Plain, Flags: unguarded},
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
