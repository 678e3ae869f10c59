// Package shrink makes a failing schedule short: it leaves operations out for as long as what remains still fails.
package shrink

import (
	"slices"

	"github.com/mooring-ccm/mooring/dev/chaos/schedule"
)

// Shortest returns a part of a schedule that still fails and of which no single operation can be left out, found by delta debugging
// (Zeller and Hildebrandt, 2002): parts are left out, half of the schedule first, then smaller ones. Fails runs a schedule; it is not
// asked about the same one twice. Tries bounds how often; after that the shortest schedule so far is returned.
func Shortest(s schedule.Schedule, tries int, fails func(schedule.Schedule) bool) schedule.Schedule {
	asked := map[string]bool{}
	still := func(candidate schedule.Schedule) bool {
		text := candidate.String()
		known, before := asked[text]
		if before || tries == 0 || len(candidate) == 0 {
			return known
		}
		tries--
		asked[text] = fails(candidate)
		return asked[text]
	}
	for parts := 2; len(s) > 1; {
		size := (len(s) + parts - 1) / parts
		shorter := withoutOne(s, size, still)
		switch {
		case shorter != nil:
			s, parts = shorter, max(2, parts-1)
		case size == 1 || tries == 0:
			return s
		default:
			parts = min(2*parts, len(s))
		}
	}
	return s
}

// withoutOne leaves out one part of a size, the last one first: what comes after the failure does not matter. It returns nil if none can
// be left out.
func withoutOne(s schedule.Schedule, size int, still func(schedule.Schedule) bool) schedule.Schedule {
	for end := len(s); end > 0; end -= size {
		if rest := slices.Concat(s[:max(0, end-size)], s[end:]); still(rest) {
			return rest
		}
	}
	return nil
}
