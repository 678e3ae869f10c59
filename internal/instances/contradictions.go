package instances

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// unnoticed is longer than kube-controller-manager takes to notice the silence of a kubelet, and longUnnoticed is that for any
	// setting of it.
	unnoticed     = 2 * time.Minute
	longUnnoticed = 10 * time.Minute
	// contradictionRetention is how long a contradiction is kept of a node that nobody asks for.
	contradictionRetention = time.Hour
)

// contradictions are the provider IDs that the cloud denies although the kubelets of their nodes report. What it denies of them later
// says nothing: it has never known them by these IDs.
type contradictions struct {
	mu        sync.Mutex
	expiredAt time.Time
	of        map[nodeKey]*contradiction
}

// contradiction is a node that was ready when its provider ID was denied.
type contradiction struct {
	// first is when it was denied first, reported the kubelet's last report by then, and asked when it was asked for last.
	first, reported, asked time.Time
	// certain says that the kubelet has reported since.
	certain bool
}

// note takes notice of an answer, and returns it with what is to be known of answers before it.
func (c *contradictions) note(node *corev1.Node, observation Observation, err error) Observation {
	if err != nil || observation.Status == NoStatement || node.Spec.ProviderID == "" {
		return observation
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	key := keyOf(node)
	if observation.Status == Found {
		delete(c.of, key)
		return observation
	}
	known, condition := c.of[key], readiness(node)
	isReady := condition != nil && condition.Status == corev1.ConditionTrue
	switch {
	case known == nil && !isReady:
		return observation
	case known == nil:
		known = &contradiction{first: observation.At, reported: condition.LastHeartbeatTime.Time}
		if c.of == nil {
			c.of = map[nodeKey]*contradiction{}
		}
		c.of[key] = known
	case isReady:
		lasts := observation.At.Sub(known.first)
		again := !condition.LastHeartbeatTime.Time.Equal(known.reported)
		known.certain = known.certain || lasts >= longUnnoticed || lasts >= unnoticed && again
	}
	known.asked = time.Now()
	observation.Contradicted = known.certain
	return observation
}

// expire forgets nodes that nobody has asked for in a while. The lock is held.
func (c *contradictions) expire() {
	now := time.Now()
	if now.Sub(c.expiredAt) < contradictionRetention/4 {
		return
	}
	c.expiredAt = now
	maps.DeleteFunc(c.of, func(_ nodeKey, known *contradiction) bool { return now.Sub(known.asked) >= contradictionRetention })
}
