package runner

import (
	"time"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
	"github.com/mooring-ccm/mooring/dev/bench/plugins"
)

// FullSize is the size of the published figures.
func FullSize() figures.Size {
	return figures.Size{
		Nodes: 1000, ManyNodes: 5000, QuotaNodes: 600, Services: 200, QuotaRate: 20, QuotaBurst: 20,
		ThrottledNodes: 300, ThrottledServices: 5, Refusals: 3, Rounds: 3,
		Idle: time.Minute, Steady: 5 * time.Minute,
	}
}

// QuickSize is just enough to see that every scenario works. Its figures mean nothing.
func QuickSize() figures.Size {
	return figures.Size{
		Nodes: 20, ManyNodes: 40, QuotaNodes: 30, Services: 4, QuotaRate: 20, QuotaBurst: 20,
		ThrottledNodes: 20, ThrottledServices: 2, Refusals: 2, Rounds: 2,
		Idle: 3 * time.Second, Steady: 3 * time.Second,
	}
}

// FullGrowth is the size of the published figures about growth.
func FullGrowth() figures.Size {
	return figures.Size{
		Growth: []int{1000, 2000, 5000, 10000, 15000}, QuotaGrowth: []int{1000, 2000, 5000}, Targets: 100,
		QuotaRate: 20, QuotaBurst: 20, Idle: figures.RestPeriod,
	}
}

// QuickGrowth is just enough to see that everything works. Its figures mean nothing.
func QuickGrowth() figures.Size {
	return figures.Size{
		Growth: []int{12, 24}, QuotaGrowth: []int{30, 40}, Targets: 10, QuotaRate: 20, QuotaBurst: 20, Idle: 3 * time.Second,
	}
}

// GrownVariants are who takes part in growing clusters: Mooring by its default flags, with either plugin.
func GrownVariants() []figures.Variant {
	return []figures.Variant{
		{Name: figures.MooringPlain, Title: "Mooring, plain plugin", Program: mooringProgram, Plugin: plugins.Plain},
		{Name: figures.MooringBulk, Title: "Mooring, bulk plugin", Program: mooringProgram, Plugin: plugins.Bulk},
	}
}
