package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// fewRows is how many rows are shown whole; of more, only those with problems are.
	fewRows = 20
	// problemRows is how many rows with problems are shown.
	problemRows = 50
)

// nodeGravity are the states of nodes that are problems, the gravest first.
var nodeGravity = []NodeState{NodeHeld, NodeUninitialized, NodeWithoutID, NodeShutDown, NodeOutOfService, NodeDeleting}

// serviceGravity are the states of Services that are problems, the gravest first.
var serviceGravity = []ServiceState{ServiceNotReady, ServiceWithdrawing, ServiceUntouched}

// Problem reports whether a node is not as it should be. Nodes of other managers are not.
func (n Node) Problem() bool {
	return slices.Contains(nodeGravity, n.State) || n.Denied || n.Routed != nil && !*n.Routed && n.State != NodeForeign
}

// Problem reports whether a Service waits for something. One that no manager has touched may have another's addresses, or be for the controller
// of its class.
func (s Service) Problem() bool {
	waits := slices.Contains(serviceGravity, s.State) && (s.State != ServiceUntouched || len(s.Addresses) == 0 && s.Class == "")
	return waits || s.Announced != nil && !*s.Announced
}

// rank is where a state is in an order, behind the last one if it is not in it.
func rank[T comparable](order []T, state T) int {
	if i := slices.Index(order, state); i >= 0 {
		return i
	}
	return len(order)
}

// problemsOf returns the rows with problems: the gravest first, and the oldest first among equally grave ones.
func problemsOf[T interface{ Problem() bool }](all []T, gravity func(T) int, since func(T) time.Time) []T {
	var found []T
	for _, one := range all {
		if one.Problem() {
			found = append(found, one)
		}
	}
	slices.SortStableFunc(found, func(a, b T) int {
		return cmp.Or(cmp.Compare(gravity(a), gravity(b)), since(a).Compare(since(b)))
	})
	return found
}

// NodeProblems are the nodes that are not as they should be, the gravest first.
func (s Status) NodeProblems() []Node {
	return problemsOf(s.Nodes, func(n Node) int { return rank(nodeGravity, n.State) }, func(n Node) time.Time { return n.Since })
}

// ServiceProblems are the Services that wait for something, the gravest first.
func (s Status) ServiceProblems() []Service {
	gravity := func(v Service) int {
		if v.NoSession {
			return -1
		}
		return rank(serviceGravity, v.State)
	}
	return problemsOf(s.Services, gravity, func(v Service) time.Time { return v.Since })
}

// shown returns the rows to show, and a line about the rows that it leaves out.
func shown[T interface{ Problem() bool }](style Style, all, problems []T, what string) (rows []T, left string) {
	if style.ProblemsFirst {
		all = append(slices.Clone(problems), slices.DeleteFunc(slices.Clone(all), T.Problem)...)
	}
	if style.All || style.EveryRow || len(all) <= fewRows {
		return all, ""
	}
	rows = problems[:min(len(problems), problemRows)]
	if more := len(problems) - len(rows); more > 0 {
		return rows, fmt.Sprintf("%d more %s with problems and %d without are left out; --all shows them\n", more, what, len(all)-len(problems))
	}
	return rows, fmt.Sprintf("%d %s without problems are left out; --all shows them\n", len(all)-len(problems), what)
}

// Zone counts the nodes of a zone by state.
type Zone struct {
	// Name is empty for nodes without a zone.
	Name   string
	Nodes  int
	States map[NodeState]int
}

// Zones counts all nodes by zone and state, zones by name.
func (s Status) Zones() []Zone {
	byName := map[string]*Zone{}
	for _, node := range s.Nodes {
		zone := byName[node.Zone]
		if zone == nil {
			zone = &Zone{Name: node.Zone, States: map[NodeState]int{}}
			byName[node.Zone] = zone
		}
		zone.Nodes++
		zone.States[node.State]++
	}
	var zones []Zone
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		zones = append(zones, *byName[name])
	}
	return zones
}

// states are all states that nodes of the zones have. States that are no problem come first.
func states(zones []Zone) []NodeState {
	var found []NodeState
	for _, state := range append([]NodeState{NodeInitialized, NodeForeign}, nodeGravity...) {
		if slices.ContainsFunc(zones, func(zone Zone) bool { return zone.States[state] > 0 }) {
			found = append(found, state)
		}
	}
	return found
}

// writeZones writes how many nodes of each zone are in each state.
func writeZones(out *strings.Builder, style Style, zones []Zone) {
	title, of := []string{"ZONE", "NODES"}, states(zones)
	for _, state := range of {
		title = append(title, strings.ToUpper(string(state)))
	}
	var rows [][]cell
	for _, zone := range zones {
		row := []cell{{text: cmp.Or(zone.Name, "(none)")}, {text: strconv.Itoa(zone.Nodes)}}
		for _, state := range of {
			one := cell{}
			if count := zone.States[state]; count > 0 {
				one = cell{strconv.Itoa(count), nodeColors[state]}
			}
			row = append(row, one)
		}
		rows = append(rows, row)
	}
	writeTable(out, style, title, rows)
}
