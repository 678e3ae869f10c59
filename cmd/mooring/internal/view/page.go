package view

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/names"
)

const (
	// pageEvents is how many events the page shows, the newest first.
	pageEvents = 40
	// gridColumns is how many nodes a row of a zone's picture has, and gridStep how many units of the picture a node takes.
	gridColumns = 40
	gridStep    = 12
)

// page is what markup.go writes. Everything that needs a decision is decided here.
type page struct {
	Status
	// Cluster says which cluster it is, as the kubeconfig does.
	Cluster string
	Leader  string
	Leads   bool
	Tiles   []tile
	Zones   []zonePicture
	States  []NodeState
	// Unrouted says that there are nodes without a route.
	Unrouted bool
	Waiting  []pageNode
	// More is how many nodes with problems are not among Waiting.
	More     int
	Nodes    []pageNode
	Services []pageService
	Routes   *routesPicture
	Sessions []pageSession
	Groups   []callGroup
	Calls    []operation
	Events   []pageEvent
}

// tile is a number that comes first.
type tile struct {
	Name, Value, Note string
	// Kind is good, doubtful, bad or empty.
	Kind string
}

// zonePicture is a zone as a bar and a grid with a square for each node, those with problems first.
type zonePicture struct {
	Zone
	Problems      int
	Width, Height int
	Squares       []square
	Segments      []segment
}

// square is a node in a grid.
type square struct {
	X, Y  int
	State NodeState
	// Unrouted marks nodes without a route.
	Unrouted bool
	Name     string
}

// segment is a part of a bar, in percent of it.
type segment struct {
	State    NodeState
	Count    int
	At, Wide float64
}

// pageNode and pageService are rows with their ages.
type pageNode struct {
	Node
	For string
}

// Route says whether the node has a route; empty if that is not known.
func (n pageNode) Route() string { return yesNo(n.Routed).text }

type pageService struct {
	Service
	For     string
	Problem bool
}

type pageEvent struct {
	Ago, Kind, Object, Reason, Message string
	Warning                            bool
	Count                              int32
}

// routesPicture is how many routes the cloud has, and how many it accepts at most.
type routesPicture struct {
	Listed, Missing, Limit int
	Percent                float64
	Full                   bool
}

// pageSession is a BGP session with its age, and with its state as a word for people.
type pageSession struct {
	Session
	Good bool
	For  string
}

// callGroup is how the calls of a group are let in to the cloud.
type callGroup struct {
	Name                      string
	Limit                     float64
	InFlight, Waiting, Refuse int
}

// operation is how often a method of the plugin was called since the process began.
type operation struct {
	Name           string
	Calls, Errors  int
	PerSecond      float64
	Percent, Wrong float64
}

// HTML writes the status as one page that is complete in itself. Cluster says which cluster it is; it may be empty.
func (s Status) HTML(out io.Writer, seen Seen, cluster string) error {
	leader := strings.TrimSpace(strings.TrimPrefix(s.Leader.text(s.Time, Style{}), "Leader: "))
	p := page{
		Status: s, Cluster: cluster, Leader: leader, Leads: s.Leader != nil && s.Leader.Holder != "" && !s.Leader.Expired,
		Zones: zonePictures(s), States: states(s.Zones()), Sessions: pageSessions(s), Groups: groupsOf(seen), Calls: operationsOf(seen),
		Events: eventsOf(seen),
	}
	problems := s.NodeProblems()
	p.More = max(0, len(problems)-problemRows)
	for _, node := range problems[:len(problems)-p.More] {
		p.Waiting = append(p.Waiting, pageNode{node, age(s.Time, node.Since)})
	}
	p.Unrouted = slices.ContainsFunc(problems, func(node Node) bool { return node.Routed != nil && !*node.Routed })
	for _, node := range s.Nodes {
		p.Nodes = append(p.Nodes, pageNode{node, age(s.Time, node.Since)})
	}
	for _, service := range s.Services {
		p.Services = append(p.Services, pageService{service, age(s.Time, service.Since), service.Problem()})
	}
	slices.SortStableFunc(p.Services, func(a, b pageService) int { return boolCompare(b.Problem, a.Problem) })
	p.Routes = routesOf(s)
	p.Tiles = tilesOf(s, len(problems))
	if _, err := io.WriteString(out, p.html()); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

func zonePictures(s Status) []zonePicture {
	byZone := map[string][]Node{}
	for _, node := range s.Nodes {
		byZone[node.Zone] = append(byZone[node.Zone], node)
	}
	var pictures []zonePicture
	for _, zone := range s.Zones() {
		nodes := byZone[zone.Name]
		slices.SortStableFunc(nodes, func(a, b Node) int {
			return cmp.Or(boolCompare(b.Problem(), a.Problem()), cmp.Compare(rank(nodeGravity, a.State), rank(nodeGravity, b.State)))
		})
		picture := zonePicture{Zone: zone, Width: gridColumns * gridStep, Height: (len(nodes) + gridColumns - 1) / gridColumns * gridStep}
		for i, node := range nodes {
			if node.Problem() {
				picture.Problems++
			}
			picture.Squares = append(picture.Squares, square{
				X: i % gridColumns * gridStep, Y: i / gridColumns * gridStep, State: node.State, Name: node.Name,
				Unrouted: node.Routed != nil && !*node.Routed,
			})
		}
		at := 0.0
		for _, state := range states([]Zone{zone}) {
			wide := 100 * float64(zone.States[state]) / float64(zone.Nodes)
			picture.Segments = append(picture.Segments, segment{State: state, Count: zone.States[state], At: at, Wide: wide})
			at += wide
		}
		pictures = append(pictures, picture)
	}
	return pictures
}

func tilesOf(s Status, problems int) []tile {
	tiles := []tile{nodesTile(s, problems), servicesTile(s)}
	m := s.Manager
	if m == nil {
		return tiles
	}
	if m.Routes != nil {
		one := tile{Name: "Routes", Value: fmt.Sprint(*m.Routes), Note: "none is missing", Kind: "good"}
		if m.RoutesMissing != nil && *m.RoutesMissing > 0 {
			one.Note, one.Kind = fmt.Sprintf("%d missing", *m.RoutesMissing), "bad"
		}
		tiles = append(tiles, one)
	}
	if m.CallsPerSecond != nil {
		one := tile{Name: "Cloud calls a second", Value: fmt.Sprintf("%.1f", *m.CallsPerSecond), Note: fmt.Sprintf("%d waiting, %d refused", m.Waiting, m.Refusals), Kind: "good"}
		if m.Waiting > 0 {
			one.Kind = "doubtful"
		}
		tiles = append(tiles, one)
	}
	observed := tile{Name: "Last look at the cloud", Value: "none", Kind: "bad", Note: "no listing and no watch yet"}
	if !m.ObservedAt.IsZero() {
		observed = tile{Name: "Last look at the cloud", Value: age(s.Time, m.ObservedAt) + " ago", Kind: "good", Note: "by " + m.Observation}
		if m.Instances != nil {
			observed.Note = fmt.Sprintf("%d instances, by %s", *m.Instances, m.Observation)
		}
	}
	return append(tiles, observed)
}

func nodesTile(s Status, problems int) tile {
	one := tile{Name: "Nodes", Value: fmt.Sprint(len(s.Nodes)), Note: "all as they should be", Kind: "good"}
	switch {
	case s.Nodes == nil:
		one.Value, one.Note, one.Kind = "?", "not known", "doubtful"
	case problems > 0:
		one.Note, one.Kind = fmt.Sprintf("%d with problems", problems), "bad"
	}
	return one
}

func servicesTile(s Status) tile {
	one := tile{Name: "Load balancers", Value: fmt.Sprint(len(s.Services)), Note: "all as they should be", Kind: "good"}
	waiting := len(s.ServiceProblems())
	switch {
	case s.Services == nil:
		one.Value, one.Note, one.Kind = "?", "not known", "doubtful"
	case waiting > 0:
		one.Note, one.Kind = fmt.Sprintf("%d with problems", waiting), "bad"
	}
	return one
}

func routesOf(s Status) *routesPicture {
	if s.Manager == nil || s.Manager.Routes == nil {
		return nil
	}
	picture := &routesPicture{Listed: *s.Manager.Routes, Limit: s.Manager.RouteLimit}
	if missing := s.Manager.RoutesMissing; missing != nil {
		picture.Missing = *missing
	}
	if picture.Limit > 0 {
		picture.Percent = min(100, 100*float64(picture.Listed)/float64(picture.Limit))
		picture.Full = picture.Percent > 90
	}
	return picture
}

// label returns a label of a metric.
func label(of *dto.Metric, name string) string {
	for _, pair := range of.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}

// each adds up a metric by a label, zeros included.
func (m metrics) each(name, by string) map[string]float64 {
	found := map[string]float64{}
	for _, one := range m[name].GetMetric() {
		found[label(one, by)] += reading(one)
	}
	return found
}

// pageSessions are the sessions with their ages.
func pageSessions(s Status) (rows []pageSession) {
	for _, one := range s.Sessions {
		one.State = cmp.Or(strings.ToLower(one.State), "down")
		rows = append(rows, pageSession{Session: one, Good: one.State == strings.ToLower(names.SessionEstablished), For: age(s.Time, one.Since)})
	}
	return rows
}

func groupsOf(seen Seen) []callGroup {
	of := metrics(seen.Metrics)
	limits := of.each(names.MetricCloudRateLimit, "group")
	flight, waiting := of.each(names.MetricCloudCallsInFlight, "group"), of.each(names.MetricCloudCallsWaiting, "group")
	refusals := of.each(names.MetricCloudRefusals, "group")
	found := map[string]float64{}
	for _, some := range []map[string]float64{limits, flight, waiting, refusals} {
		maps.Copy(found, some)
	}
	var groups []callGroup
	for _, name := range slices.Sorted(maps.Keys(found)) {
		groups = append(groups, callGroup{
			Name: name, Limit: limits[name], InFlight: int(flight[name]), Waiting: int(waiting[name]), Refuse: int(refusals[name]),
		})
	}
	return groups
}

func operationsOf(seen Seen) []operation {
	const calls = names.MetricCloudCalls
	now, before := metrics(seen.Metrics), metrics(seen.Before).each(calls, "operation")
	all, most := now.each(calls, "operation"), 0.0
	failed := map[string]float64{}
	for _, one := range now[calls].GetMetric() {
		if names.IsCallFailure(label(one, "outcome")) {
			failed[label(one, "operation")] += reading(one)
		}
	}
	for _, count := range all {
		most = max(most, count)
	}
	var operations []operation
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] == 0 {
			continue
		}
		one := operation{
			Name: name, Calls: int(all[name]), Errors: int(failed[name]), Percent: 100 * (all[name] - failed[name]) / most, Wrong: 100 * failed[name] / most,
		}
		if seen.Before != nil && seen.Interval > 0 {
			one.PerSecond = max(0, all[name]-before[name]) / seen.Interval.Seconds()
		}
		operations = append(operations, one)
	}
	slices.SortStableFunc(operations, func(a, b operation) int { return cmp.Compare(b.Calls, a.Calls) })
	return operations
}

// eventsOf are the newest events that managers have written. What kubelets and others write of nodes is left out.
func eventsOf(seen Seen) []pageEvent {
	others := []string{"kubelet", "kube-proxy", "node-controller", "endpoint-slice-controller"}
	events := slices.DeleteFunc(slices.Clone(seen.Events), func(event corev1.Event) bool {
		return slices.Contains(others, cmp.Or(event.Source.Component, event.ReportingController))
	})
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return timeOf(&b).Compare(timeOf(&a)) })
	var rows []pageEvent
	for _, event := range events[:min(len(events), pageEvents)] {
		about := event.InvolvedObject
		rows = append(rows, pageEvent{
			Ago: age(seen.Now, timeOf(&event)), Kind: about.Kind, Object: strings.TrimPrefix(about.Namespace+"/"+about.Name, "/"),
			Reason: event.Reason, Message: event.Message, Warning: event.Type == corev1.EventTypeWarning, Count: max(1, event.Count),
		})
	}
	return rows
}
