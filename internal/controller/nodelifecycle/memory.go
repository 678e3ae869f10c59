package nodelifecycle

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// memory is what the controller knows of its own writes that the cache may not show yet.
type memory struct {
	// versions are the resource versions that our last writes made, empty for nodes that we deleted.
	versions map[types.UID]string
	// failing are the kinds of action that failed when they were last tried.
	failing map[types.UID]actionKind
	// pulses are the reports of kubelets that are not ready.
	pulses map[types.UID]pulse
}

func newMemory() *memory {
	return &memory{versions: map[types.UID]string{}, failing: map[types.UID]actionKind{}, pulses: map[types.UID]pulse{}}
}

// feel returns what we have seen of the reports of a node's kubelet, with what the node shows now.
func (m *memory) feel(node facts, now time.Time) pulse {
	if node.ready || node.heard.IsZero() {
		delete(m.pulses, node.uid)
		return pulse{}
	}
	last, known := m.pulses[node.uid]
	if !known || !last.heard.Equal(node.heard) {
		last = pulse{heard: node.heard, at: now, changed: known}
		m.pulses[node.uid] = last
	}
	return last
}

// stale reports whether a node from the cache is older than our own last write to it.
func (m *memory) stale(node *corev1.Node) bool {
	version, known := m.versions[node.UID]
	return known && (version == "" || kit.Older(node.ResourceVersion, version))
}

// note remembers what became of an action. It reports whether a failure is news.
func (m *memory) note(done result) (news bool) {
	uid := done.action.node.uid
	switch done.outcome {
	case kit.Written:
		delete(m.failing, uid)
		if done.action.kind == deleteNode || done.resourceVersion != "" {
			m.versions[uid] = done.resourceVersion
		}
	case kit.Gone:
		m.versions[uid] = ""
	case kit.Refused, kit.Uncertain:
		kind, failed := m.failing[uid]
		m.failing[uid] = done.action.kind
		return !failed || kind != done.action.kind
	case kit.Outdated, kit.NotTried:
	}
	return false
}

// forget drops the nodes that are there no more.
func (m *memory) forget(current map[types.UID]bool) {
	maps.DeleteFunc(m.versions, func(uid types.UID, _ string) bool { return !current[uid] })
	maps.DeleteFunc(m.failing, func(uid types.UID, _ actionKind) bool { return !current[uid] })
	maps.DeleteFunc(m.pulses, func(uid types.UID, _ pulse) bool { return !current[uid] })
}
