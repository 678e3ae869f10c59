package instances

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

const (
	// firstCheck is how long a node that is not ready may be known by the watch alone, and longestCheck bounds the pause between two
	// checks, which doubles.
	firstCheck   = time.Minute
	longestCheck = 10 * time.Minute
)

// checks say when nodes that are not ready are to be looked up in a listing, whatever else shows their instances.
type checks struct {
	mu sync.Mutex
	of map[nodeKey]*check
}

// check is when a node is to be looked up.
type check struct {
	asked, due time.Time
	pause      time.Duration
}

// due reports whether one of the nodes is to be looked up now.
func (c *checks) due(nodes []*corev1.Node, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.of, func(_ nodeKey, known *check) bool { return now.Sub(known.asked) >= retention })
	due := false
	for _, node := range nodes {
		key := keyOf(node)
		if ownership.Ready(node) {
			delete(c.of, key)
			continue
		}
		known := c.of[key]
		if known == nil {
			known = &check{due: now.Add(firstCheck), pause: firstCheck}
			if c.of == nil {
				c.of = map[nodeKey]*check{}
			}
			c.of[key] = known
		}
		known.asked = now
		due = due || !now.Before(known.due)
	}
	return due
}

// made notes that a node was looked up in a listing.
func (c *checks) made(node *corev1.Node, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.of[keyOf(node)]; known != nil {
		known.pause = min(2*known.pause, longestCheck)
		known.due = at.Add(known.pause)
	}
}
