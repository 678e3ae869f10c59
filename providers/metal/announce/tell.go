package announce

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/mooring-ccm/mooring/providers/metal/announce/model"
)

const (
	// tellPause is the time between two looks at all Services: changes that come together are told together.
	tellPause = 250 * time.Millisecond
	// tellAgain is the time after which what failed is tried again.
	tellAgain = 5 * time.Second
	// cacheLag is how long a condition that was written may not be in the cache yet.
	cacheLag = 10 * time.Second
	// tellTimeout bounds one write.
	tellTimeout = 10 * time.Second
	// tellers are how many writes there are at once.
	tellers = 8
)

// Recorder takes events. It is what record.EventRecorder of client-go does.
type Recorder interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// Teller writes to Services what became of them: a condition for whoever looks, and events when it changes. It is for the leader
// only. The service controller writes another condition, LoadBalancerReady, by patches that leave this one alone, and so does this
// one: a list of conditions is merged by type.
type Teller struct {
	// Announcer says what became of the Services.
	Announcer *Announcer
	// Client writes. It needs patch on services/status.
	Client kubernetes.Interface
	// Services reads what is written already.
	Services corelisters.ServiceLister
	// Recorder takes the events.
	Recorder Recorder
	// Notes say of an address what else keeps it from being reached, in a sentence without a full stop; empty if nothing does.
	Notes []func(netip.Addr) string

	memory map[types.UID]told
}

// Run tells until ctx ends.
func (t *Teller) Run(ctx context.Context) {
	changed, cancel := t.Announcer.Subscribe()
	defer cancel()
	t.memory = map[types.UID]told{}
	for wait := tellPause; ; {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			wait = tellPause
		case <-time.After(wait):
			wait = t.tellAll(ctx)
			continue
		}
		select { // what comes together is told together
		case <-ctx.Done():
			return
		case <-time.After(wait):
			wait = t.tellAll(ctx)
		}
	}
}

// tellAll tells all Services, and returns after what time it has to look again even if nothing changes.
func (t *Teller) tellAll(ctx context.Context) time.Duration {
	snapshot := t.Announcer.Snapshot()
	if !snapshot.Complete {
		return tellPause
	}
	services, err := t.Services.List(labels.Everything())
	if err != nil {
		return tellAgain // an informer's cache has no errors
	}
	next := time.Minute // notes change without notice
	seen, failed := map[types.UID]told{}, make(chan *corev1.Service, len(services))
	var writes errgroup.Group
	writes.SetLimit(tellers)
	for _, service := range services {
		state, ours := snapshot.Services[keyOf(service.Namespace, service.Name)]
		current := conditionOf(service)
		if ours = ours && state.UID == service.UID; !ours && current == nil {
			continue
		}
		now, known := time.Now(), t.memory[service.UID]
		if known.last != nil && now.Sub(known.written) < cacheLag {
			current = known.last
		}
		verdict := decide(current, t.want(state, ours), known, now)
		seen[service.UID] = verdict.remember
		if verdict.after > 0 {
			next = min(next, verdict.after)
		}
		if verdict.write || verdict.remove {
			writes.Go(func() error {
				if !t.write(ctx, service, verdict) {
					failed <- service
				}
				return nil
			})
		}
	}
	_ = writes.Wait() // none returns an error
	close(failed)
	for service := range failed {
		seen[service.UID] = t.memory[service.UID]
		next = min(next, tellAgain)
	}
	t.memory = seen
	return max(next, tellPause)
}

// want returns the condition that a Service shall have; nil for none.
func (t *Teller) want(state model.ServiceState, ours bool) *metav1.Condition {
	if !ours {
		return nil
	}
	condition := conditionFor(state)
	for _, address := range state.Addresses {
		for _, note := range t.Notes {
			if said := note(address.Addr); said != "" {
				condition.Message += "; " + said
			}
		}
	}
	return condition
}

// write writes a condition and says so in an event. It reports whether there is nothing to be tried again.
func (t *Teller) write(ctx context.Context, service *corev1.Service, verdict verdict) bool {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	patch, err := patchOf(service.UID, verdict)
	if err == nil {
		_, err = t.Client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name, types.StrategicMergePatchType, patch,
			metav1.PatchOptions{}, "status")
	}
	switch {
	case err == nil && verdict.event != "":
		t.Recorder.Event(service, verdict.eventType, verdict.event, verdict.condition.Message)
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// told, or gone, or another one of the same name
	default:
		logr.FromContextOrDiscard(ctx).Error(err, "Could not write the condition "+ConditionAnnounced,
			"service", service.Namespace+"/"+service.Name)
		return false
	}
	return true
}

// patchOf returns a strategic merge patch that touches no other condition, and no other Service of the same name.
func patchOf(uid types.UID, verdict verdict) ([]byte, error) {
	var condition any = verdict.condition
	if verdict.remove {
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
