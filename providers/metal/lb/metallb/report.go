package metallb

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/mooring-ccm/mooring/providers/metal/config/convert"
	"github.com/mooring-ccm/mooring/providers/metal/lb/ipam/pool"
)

// The reasons of events on MetalLB's resources.
const (
	// EventNoEquivalent says that a field has no effect.
	EventNoEquivalent = "NoEquivalent"
	// EventManualStep says what a person has to do besides.
	EventManualStep = "ManualStep"
	// EventRefused says that the resource is wrong, and that the version before stays in force if there was one.
	EventRefused = "ResourceRefused"
	// EventSecretRefused says that the Secret of a password is missing or wrong.
	EventSecretRefused = "PasswordSecretRefused"
)

// statusInterval is the shortest time between two looks at what pools have: a burst of Services makes one write.
const statusInterval = 2 * time.Second

// Report tells, until ctx ends, what became of the resources: by events on each, and by the counts of addresses in the status of the pools.
// Only the leader calls it. Usage returns false while it is not known.
func (s *Source) Report(ctx context.Context, recorder record.EventRecorder, usage func() ([]pool.Usage, bool)) {
	said := map[string]bool{}
	tick := time.NewTicker(statusInterval)
	defer tick.Stop()
	for {
		s.sayEvents(recorder, said)
		if used, known := usage(); known {
			s.writeStatus(ctx, used)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-tick.C:
		}
	}
}

// sayEvents records what was not recorded yet.
func (s *Source) sayEvents(recorder record.EventRecorder, said map[string]bool) {
	s.mu.Lock()
	current, wrongPasswords, objects := s.current, s.wrongPasswords(), map[string]*unstructured.Unstructured{}
	for name, one := range current.taken {
		objects[name] = one.object
	}
	for _, informer := range s.informers {
		for _, object := range informer.GetStore().List() {
			if one, ok := object.(*unstructured.Unstructured); ok {
				objects[key(one)] = one
			}
		}
	}
	s.mu.Unlock()
	still := map[string]bool{}
	event := func(name, kind, reason, message string) {
		object := objects[name]
		if object == nil {
			return
		}
		id := string(object.GetUID()) + reason + message
		still[id] = true
		if !said[id] {
			recorder.Event(&corev1.ObjectReference{
				APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
			}, kind, reason, message)
		}
	}
	for name, why := range current.refused {
		does := "It is not in force"
		if _, older := current.taken[name]; older {
			does = "The version before stays in force"
		}
		event(name, corev1.EventTypeWarning, EventRefused, does+": "+why)
	}
	for name, why := range wrongPasswords {
		event("BGPPeer "+s.namespace+"/"+name, corev1.EventTypeWarning, EventSecretRefused,
			"spec.passwordSecret: "+why.Error()+". A session keeps the password that it has; without one there is no session")
	}
	for _, note := range current.notes {
		name, _, _ := strings.Cut(note.Resource, ",")
		text := note.Message
		if note.Field != "" {
			text = note.Field + ": " + text
		}
		switch note.Severity {
		case convert.Lost:
			event(name, corev1.EventTypeWarning, EventNoEquivalent, text)
		case convert.Action:
			event(name, corev1.EventTypeNormal, EventManualStep, text)
		}
	}
	clear(said)
	for id := range still {
		said[id] = true
	}
}

// counts are the fields of the status of an IPAddressPool.
type counts struct {
	AssignedIPv4  int64 `json:"assignedIPv4"`
	AssignedIPv6  int64 `json:"assignedIPv6"`
	AvailableIPv4 int64 `json:"availableIPv4"`
	AvailableIPv6 int64 `json:"availableIPv6"`
}

// writeStatus writes the counts of pools whose status says something else.
func (s *Source) writeStatus(ctx context.Context, usage []pool.Usage) {
	byPool := map[string]*counts{}
	for _, one := range usage {
		of := byPool[one.Pool]
		if of == nil {
			of = &counts{}
			byPool[one.Pool] = of
		}
		taken, free := whole(one.Taken), whole(one.Size-one.Taken)
		if one.Family == corev1.IPv4Protocol {
			of.AssignedIPv4, of.AvailableIPv4 = taken, free
		} else {
			of.AssignedIPv6, of.AvailableIPv6 = taken, free
		}
	}
	s.mu.Lock()
	informer := s.informers[kinds[0]]
	s.mu.Unlock()
	if informer == nil {
		return
	}
	for _, object := range informer.GetStore().List() {
		found, ok := object.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		wanted := byPool[convert.PoolName(found.GetName())]
		if wanted == nil {
			continue
		}
		var shown struct{ Status *counts }
		text, err := json.Marshal(found.Object)
		if err == nil {
			err = json.Unmarshal(text, &shown)
		}
		if err == nil && reflect.DeepEqual(shown.Status, wanted) {
			continue
		}
		if err := s.patch(ctx, found, wanted); err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Error(err, "The status of a pool of MetalLB is not written", "file", key(found))
		}
	}
}

func (s *Source) patch(ctx context.Context, of *unstructured.Unstructured, wanted *counts) error {
	text, err := json.Marshal(map[string]any{"status": wanted})
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	_, err = s.client.Resource(kinds[0]).Namespace(of.GetNamespace()).Patch(ctx, of.GetName(), types.MergePatchType, text, metav1.PatchOptions{}, "status")
	return err
}

// whole is a count that may be too large for an integer: a /64 of IPv6 is.
func whole(count float64) int64 {
	if count >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(count)
}
