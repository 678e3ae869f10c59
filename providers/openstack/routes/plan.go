package routes

import "slices"

// step is what a batch of changes comes to.
type step struct {
	add, remove []route
}

// planned returns what is to be added and what to be removed, each once. What is added and removed by one batch stays.
func planned(add, remove []route) step {
	var s step
	for _, one := range add {
		if !slices.Contains(s.add, one) {
			s.add = append(s.add, one)
		}
	}
	for _, one := range remove {
		if !slices.Contains(s.remove, one) && !slices.Contains(s.add, one) {
			s.remove = append(s.remove, one)
		}
	}
	return s
}

// applied returns a router's whole list after a step, and whether that differs from what is there.
func (s step) applied(to []route) ([]route, bool) {
	result := slices.DeleteFunc(slices.Clone(to), func(one route) bool { return slices.Contains(s.remove, one) })
	changed := len(result) != len(to)
	for _, one := range s.add {
		if !slices.Contains(result, one) {
			result, changed = append(result, one), true
		}
	}
	return result, changed
}

// pair is an address that a port may send from besides its own.
type pair struct {
	Address string `json:"ip_address"`
	MAC     string `json:"mac_address,omitempty"`
}

// pairsAfter returns the allowed pairs of a port after destinations are added and removed, and whether that differs.
func pairsAfter(there []pair, add, remove []string) ([]pair, bool) {
	result := slices.DeleteFunc(slices.Clone(there), func(p pair) bool { return slices.Contains(remove, p.Address) && !slices.Contains(add, p.Address) })
	changed := len(result) != len(there)
	for _, destination := range add {
		if !slices.ContainsFunc(result, func(p pair) bool { return p.Address == destination }) {
			result, changed = append(result, pair{Address: destination}), true
		}
	}
	return result, changed
}
