package double

import (
	"hash/fnv"
	"strconv"
	"sync"
	"testing/synctest"
)

// gate lets requests and calls go one at a time, each after all goroutines of the bubble have come to rest.
type gate struct {
	seed uint64

	mu      sync.Mutex
	waiting []ticket
	asked   map[string]int
	// wake has a value while something waits. ended is closed when nothing may wait any longer.
	wake  chan struct{}
	ended chan struct{}
}

// ticket is one request or call that waits.
type ticket struct {
	rank uint64
	pass chan struct{}
}

func newGate(seed uint64) *gate {
	return &gate{seed: seed, asked: map[string]int{}, wake: make(chan struct{}, 1), ended: make(chan struct{})}
}

// wait returns when the caller may go on.
func (g *gate) wait(about string) {
	select {
	case <-g.ended:
		return
	default:
	}
	mine := ticket{pass: make(chan struct{})}
	g.mu.Lock()
	g.asked[about]++
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(strconv.FormatUint(g.seed, 10) + " " + about + " " + strconv.Itoa(g.asked[about]))) // a hash takes everything
	mine.rank = sum.Sum64()
	g.waiting = append(g.waiting, mine)
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
	select {
	case <-mine.pass:
	case <-g.ended:
	}
}

// run lets go of what waits until the end.
func (g *gate) run() {
	for {
		select {
		case <-g.ended:
			return
		case <-g.wake:
		}
		for {
			synctest.Wait()
			next, ok := g.next()
			if !ok {
				break
			}
			close(next.pass)
		}
	}
}

// next takes the ticket with the lowest rank.
func (g *gate) next() (ticket, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		return ticket{}, false
	}
	first := 0
	for i, one := range g.waiting {
		if one.rank < g.waiting[first].rank {
			first = i
		}
	}
	next := g.waiting[first]
	g.waiting[first] = g.waiting[len(g.waiting)-1]
	g.waiting = g.waiting[:len(g.waiting)-1]
	return next, true
}

// close ends the gate.
func (g *gate) close() { close(g.ended) }
