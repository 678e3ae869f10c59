package announce

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
)

const (
	// writePause is the time between two looks at all Services: changes that come together are written together.
	writePause = 250 * time.Millisecond
	// retryWrite is the time after which what failed is tried again.
	retryWrite = 5 * time.Second
	// cacheLag is how long a condition that was written may not be in the cache yet.
	cacheLag = 10 * time.Second
	// passTime is after how long a look at all Services starts no further writes: with many to write, routers and nodes have changed by
	// then, and the rest is decided anew.
	passTime = 2 * time.Second
	// writeTimeout bounds one write.
	writeTimeout = 10 * time.Second
	// parallelWrites is how many writes are in flight at once.
	parallelWrites = 8
)

// Recorder takes events. It is what record.EventRecorder of client-go does.
type Recorder interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// ConditionWriter writes the condition Announced to Services, and records an event when it changes. It is for the leader only. The
// service controller writes another condition, LoadBalancerReady, by patches that leave this one alone, and so does this
// one: a list of conditions is merged by type.
type ConditionWriter struct {
	// Announcer says which Services are announced.
	Announcer *Announcer
	// Client writes. It needs patch on services/status.
	Client kubernetes.Interface
	// Services reads what is written already.
	Services corelisters.ServiceLister
	// Recorder takes the events.
	Recorder Recorder
	// Routers returns how far announcements get with each router, and RoutersChanged has something to receive after that is different.
	// Nil where nothing is announced to routers.
	Routers        func() []Router
	RoutersChanged <-chan struct{}
	// OnSegment reports whether an address is answered for by ARP or NDP, or else why not, as a part of a sentence, empty if it is not to
	// be. Nil where none is.
	OnSegment func(netip.Addr) (answering bool, problem string)
	// InForce says which of the two the config asks for now; nil stands for both. While it asks for none, no Service has a condition.
	InForce func() (routers, segment bool)
	// Registerer gets the metrics; nil for none.
	Registerer prometheus.Registerer

	states  map[types.UID]conditionState
	routers routerStates
	metric  *prometheus.GaugeVec
}

// Run writes conditions until ctx ends.
func (w *ConditionWriter) Run(ctx context.Context) {
	changed, cancel := w.Announcer.Subscribe()
	defer cancel()
	w.states, w.routers = map[types.UID]conditionState{}, routerStates{}
	w.metric = newConditionMetric(w.Registerer)
	for wait := writePause; ; {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			wait = writePause
		case <-w.RoutersChanged:
			wait = writePause
		case <-time.After(wait):
			wait = w.writeAll(ctx)
			continue
		}
		select { // what comes together is written together
		case <-ctx.Done():
			return
		case <-time.After(wait):
			wait = w.writeAll(ctx)
		}
	}
}

// writeAll writes the conditions of all Services that differ, and returns after what time it has to look again even if nothing
// changes.
func (w *ConditionWriter) writeAll(ctx context.Context) time.Duration {
	snapshot := w.Announcer.Snapshot()
	if !snapshot.Complete {
		return writePause
	}
	services, err := w.Services.List(labels.Everything())
	if err != nil {
		return retryWrite // an informer's cache has no errors
	}
	began := time.Now()
	toRouters, onSegment := w.Routers != nil, w.OnSegment != nil
	if w.InForce != nil {
		toRouters, onSegment = w.InForce()
	}
	nowhere := w.InForce != nil && !toRouters && !onSegment
	routers, next := w.deliveries(began, toRouters, onSegment)
	next = min(next, time.Minute) // notes change without notice
	counts := conditionCounts{}
	seen, failed := map[types.UID]conditionState{}, make(chan *corev1.Service, len(services))
	var writes errgroup.Group
	writes.SetLimit(parallelWrites)
	for _, service := range services {
		state, ours := snapshot.Services[keyOf(service.Namespace, service.Name)]
		current := conditionOf(service)
		if ours = ours && !nowhere && state.UID == service.UID; !ours && current == nil {
			continue
		}
		now, known := time.Now(), w.states[service.UID]
		if known.last != nil && now.Sub(known.written) < cacheLag {
			current = known.last
		}
		want, where, undecided := w.want(state, ours, routers, onSegment)
		if undecided {
			seen[service.UID] = known
			continue
		}
		counts.add(want)
		decision := decide(current, want, known, now)
		if (decision.write || decision.remove) && now.Sub(began) > passTime {
			seen[service.UID], next = known, 0
			continue
		}
		seen[service.UID] = decision.remember
		if decision.after > 0 {
			next = min(next, decision.after)
		}
		if decision.write || decision.remove {
			writes.Go(func() error {
				if !w.write(ctx, service, decision, where) {
					failed <- service
				}
				return nil
			})
		}
	}
	_ = writes.Wait() // none returns an error
	close(failed)
	for service := range failed {
		seen[service.UID] = w.states[service.UID]
		next = min(next, retryWrite)
	}
	w.states = seen
	counts.show(w.metric)
	return max(next, writePause)
}

// want returns the condition that a Service shall have, nil for none, and where it is announced. It is undecided while it is not known yet whether there are routers
// that take its addresses.
func (w *ConditionWriter) want(state model.ServiceState, ours bool, routers *deliveries, onSegment bool) (want *metav1.Condition, where string, undecided bool) {
	if !ours {
		return nil, "", false
	}
	if routers != nil {
		answering := w.OnSegment
		if !onSegment {
			answering = nil
		}
		if state, undecided = routers.of(state, answering); undecided {
			return nil, "", true
		}
	}
	return conditionFor(state), state.Where(), false
}

// write writes a condition and says so in an event, of one that is announced with where that is. It reports whether there is nothing to be tried again.
func (w *ConditionWriter) write(ctx context.Context, service *corev1.Service, decision decision, where string) bool {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	patch, err := patchOf(service.UID, decision)
	if err == nil {
		_, err = w.Client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name, types.StrategicMergePatchType, patch,
			metav1.PatchOptions{}, "status")
	}
	switch {
	case err == nil && decision.event == EventAnnounced:
		w.Recorder.Event(service, decision.eventType, decision.event, decision.condition.Message+". "+where)
	case err == nil && decision.event != "":
		w.Recorder.Event(service, decision.eventType, decision.event, decision.condition.Message)
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// conditionState, or gone, or another one of the same name
	default:
		logr.FromContextOrDiscard(ctx).Error(err, "Could not write the condition "+ConditionAnnounced,
			"service", service.Namespace+"/"+service.Name)
		return false
	}
	return true
}

// patchOf returns a strategic merge patch that touches no other condition, and no other Service of the same name.
func patchOf(uid types.UID, decision decision) ([]byte, error) {
	var condition any = decision.condition
	if decision.remove {
		condition = map[string]string{"$patch": "delete", "type": ConditionAnnounced}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": uid},
		"status":   map[string]any{"conditions": []any{condition}},
	})
	if err != nil {
		return nil, fmt.Errorf("patch of condition %s: %w", ConditionAnnounced, err)
	}
	return patch, nil
}
