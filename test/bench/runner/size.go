package runner

import (
	"time"

	"github.com/mooring-ccm/mooring/test/bench/figures"
)

// DefaultMinimumAge is the default of --node-deletion-min-age.
const DefaultMinimumAge = 2 * time.Minute

// FullSize is that of the published figures.
func FullSize() figures.Size {
	return figures.Size{
		Nodes: 1000, ManyNodes: 5000, QuotaNodes: 600, Services: 200, QuotaRate: 20, QuotaBurst: 20,
		ThrottledNodes: 300, ThrottledServices: 5, Refusals: 3, Rounds: 3,
		Idle: time.Minute, Steady: 5 * time.Minute, MinimumAge: DefaultMinimumAge,
	}
}

// QuickSize is just enough to see that every scenario works. Its figures mean nothing.
func QuickSize() figures.Size {
	return figures.Size{
		Nodes: 20, ManyNodes: 40, QuotaNodes: 30, Services: 4, QuotaRate: 20, QuotaBurst: 20,
		ThrottledNodes: 20, ThrottledServices: 2, Refusals: 2, Rounds: 2,
		Idle: 3 * time.Second, Steady: 3 * time.Second, MinimumAge: time.Second,
	}
}
