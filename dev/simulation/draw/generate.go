package draw

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"
)

// Dice returns a source of random numbers for a purpose. The same seed and purpose give the same numbers, in whatever order they are asked for.
func Dice(seed uint64, purpose ...any) *rand.Rand {
	sum := fnv.New64a()
	_, _ = fmt.Fprintln(sum, purpose...) // a hash takes everything
	return rand.New(rand.NewPCG(seed, sum.Sum64()))
}

var characters = []Character{
	HeavyTailed, WaitingLimiter, RefusingLimiter, ColdCache, NoMutex, Mutating, AnyOrder, OtherSpelling, Failing, Hanging, Panicking,
	OldInterfaces, Declaring, Echoing, WritesObjects, RetryErrors, PartialSuccess,
	Lagging, Denying, BalancerNotFound, AlternatingPower, EventualDeletion, LaggingAnswers, Replicas, Quota, EmptyPages,
}

var disturbances = []Disturbance{
	Leave, MassLeave, Silent, TaintReturns, Exclude, ToBeDeleted, HandLabel, Beat, PortChange, PortInBeat, Deleted, ProxyAnswer, Conflicts,
	CutWatches, NotReady, Crash, Restart, Replaced, Renamed, Flap, LostLabels, Busy, Bulk, TypeChange, Timeouts, SlowWatches, LeaseLost, Exchange,
}

// New returns the draw of a seed.
func New(seed uint64) Draw {
	d := Draw{Version: Version, Seed: seed, Plugin: newPlugin(Dice(seed, Version, "plugin"))}
	dice := Dice(seed, Version, "cluster")
	for i := range 10 + dice.IntN(16) {
		node := Node{Name: fmt.Sprintf("node-%02d", i)}
		if i >= 6 && dice.IntN(3) == 0 {
			node.Joins = time.Duration(5+dice.IntN(8*60)) * time.Second
		} else {
			node.Taken = dice.IntN(6) == 0
		}
		d.Nodes = append(d.Nodes, node)
	}
	for i := range 1 + dice.IntN(8) {
		service := Service{Name: fmt.Sprintf("service-%d", i)}
		if dice.IntN(3) == 0 {
			service.Created = time.Duration(5+dice.IntN(6*60)) * time.Second
		}
		d.Services = append(d.Services, service)
	}
	d.Election, d.OtherFirst = dice.IntN(10) == 0, dice.IntN(2) == 0
	d.Events = newEvents(Dice(seed, Version, "events"), d)
	return d
}

// newPlugin draws a character in five draws of six, and a second one in one of five.
func newPlugin(dice *rand.Rand) Plugin {
	p := Plugin{
		Latency:         time.Duration(10+dice.IntN(2000)) * time.Millisecond,
		LimiterInterval: time.Duration(500+dice.IntN(3000)) * time.Millisecond,
		CacheFill:       time.Duration(20+dice.IntN(100)) * time.Second,
		FaultRate:       0.05 + dice.Float64()/4,
		Lag:             time.Duration(20+dice.IntN(100)) * time.Second,
	}
	count := []int{0, 1, 1, 1, 1, 2}[dice.IntN(6)]
	for _, i := range dice.Perm(len(characters))[:count] {
		p.Characters = append(p.Characters, characters[i])
	}
	slices.Sort(p.Characters)
	return p
}

// newEvents draws one to three disturbances, each once to three times.
func newEvents(dice *rand.Rand, d Draw) []Event {
	var events []Event
	kinds := dice.Perm(len(disturbances))[:1+dice.IntN(3)]
	if d.Plugin.Has(AlternatingPower) || d.Plugin.Has(Denying) {
		kinds = append(kinds, slices.Index(disturbances, Silent))
	}
	lost := slices.Index(disturbances, LeaseLost)
	kinds = slices.DeleteFunc(kinds, func(i int) bool { return i == lost })
	if d.Election {
		kinds = append(kinds, lost)
	}
	for _, i := range kinds {
		for range 1 + dice.IntN(3) {
			at := Settle + time.Duration(dice.IntN(int((Disturbed-Settle)/time.Second)*3/4))*time.Second
			events = append(events, newEvent(dice, d, disturbances[i], at)...)
		}
	}
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return events
}

// newEvent draws the objects of a disturbance and how long it lasts.
func newEvent(dice *rand.Rand, d Draw, kind Disturbance, at time.Duration) []Event {
	event := Event{At: at, Kind: kind, For: time.Duration(20+dice.IntN(100)) * time.Second}
	node, service := d.Nodes[dice.IntN(6)].Name, d.Services[dice.IntN(len(d.Services))].Name
	switch kind {
	case MassLeave:
		var all []Event
		for _, i := range dice.Perm(len(d.Nodes))[:len(d.Nodes)*2/5] {
			all = append(all, Event{At: at, Kind: kind, Object: d.Nodes[i].Name})
		}
		return all
	case Leave:
		event.Object = d.Nodes[6+dice.IntN(len(d.Nodes)-6)].Name
	case Silent, TaintReturns, Exclude, ToBeDeleted, HandLabel, Replaced, Renamed, Flap, LostLabels, Busy:
		event.Object = node
	case Beat, PortChange, PortInBeat, Deleted, TypeChange:
		event.Object, event.Number = service, 8000+dice.IntN(1000)
	case Bulk:
		event.Number = 3 + dice.IntN(8)
	case Crash, Restart:
		event.Number = dice.IntN(2)
	case Timeouts:
		event.Object, event.Number, event.Skip = []string{node, service}[dice.IntN(2)], dice.IntN(2), dice.IntN(3)
	case NotReady:
		event.Number = 6000 + dice.IntN(1000)
	case ProxyAnswer:
		late := slices.IndexFunc(d.Services, func(service Service) bool { return service.Created > 0 })
		if late >= 0 && dice.IntN(2) == 0 {
			event.Object, event.At = d.Services[late].Name, d.Services[late].Created-time.Second
			event.Number, event.Skip = []int{403, 404, 404, 500}[dice.IntN(4)], dice.IntN(4)
			break
		}
		event.Object, event.Number = []string{node, service}[dice.IntN(2)], []int{403, 404, 404, 500}[dice.IntN(4)]
	case Conflicts:
		event.Object, event.Number = []string{node, service}[dice.IntN(2)], 1+dice.IntN(4)
	}
	return []Event{event}
}
