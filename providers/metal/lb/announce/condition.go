package announce

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
)

const (
	// ConditionAnnounced is the condition on a Service that says whether its addresses are announced, or why not.
	ConditionAnnounced = names.ConditionAnnounced
	// EventAnnounced is the reason of the event that says that a Service is announced now.
	EventAnnounced = "Announced"
	// EventNotAnnounced is the reason of the event that says that a Service is not announced, and why.
	EventNotAnnounced = "NotAnnounced"
)

const (
	// firstWarningAfter is how long a Service has to be without announcement before that is written: one that is new is, for a moment.
	firstWarningAfter = 3 * time.Second
	// repeat is how often a message is written again that changes while status and reason stay.
	repeat = time.Minute
	// eventInterval is how often an event says of a Service that it is not announced for the same reason.
	eventInterval = 10 * time.Minute
)

// conditionState is what is remembered of a Service. A new leader remembers nothing, and goes by the condition.
type conditionState struct {
	// failingSince is when the Service was first seen not to be announced; zero while it is.
	failingSince time.Time
	// written is when the condition was last written, and last what that was; nil for none.
	written time.Time
	last    *metav1.Condition
	// warned is when the latest warning was given, for warnedReason.
	warned       time.Time
	warnedReason string
}

// decision is what is to be done about a Service.
type decision struct {
	write, remove bool
	// condition is what to write.
	condition *metav1.Condition
	// event is the reason of an event to give, empty for none.
	event, eventType string
	// after is when to look again; zero: when something changes.
	after    time.Duration
	remember conditionState
}

// conditionFor returns the condition of a Service, without its time.
func conditionFor(state model.ServiceState) *metav1.Condition {
	status := metav1.ConditionFalse
	if state.Announced() {
		status = metav1.ConditionTrue
	}
	return &metav1.Condition{Type: ConditionAnnounced, Status: status, Reason: string(state.Reason()), Message: state.Message()}
}

func conditionOf(service *corev1.Service) *metav1.Condition {
	for i := range service.Status.Conditions {
		if service.Status.Conditions[i].Type == ConditionAnnounced {
			return &service.Status.Conditions[i]
		}
	}
	return nil
}

// decide compares the condition that a Service has with the one that it shall have; nil stands for none. What is good news, and
// what is bad news for some time, is written at once; messages that only change in a number now and then.
func decide(current, want *metav1.Condition, known conditionState, now time.Time) decision {
	result := decision{condition: want, remember: known}
	if want == nil || want.Status == metav1.ConditionTrue {
		result.remember.failingSince = time.Time{}
	} else if known.failingSince.IsZero() {
		result.remember.failingSince = now
	}
	switch {
	case want == nil:
		result.remove, result.remember.last = current != nil, nil
		return result
	case current == nil && want.Reason == string(model.NoAddress):
		return result // LoadBalancerReady says why
	case current != nil && current.Status == want.Status && current.Reason == want.Reason && current.Message == want.Message:
		return result
	}
	sameReason := current != nil && current.Status == want.Status && current.Reason == want.Reason
	wait := time.Duration(0)
	switch {
	case sameReason:
		wait = known.written.Add(repeat).Sub(now)
	case want.Status == metav1.ConditionFalse:
		wait = result.remember.failingSince.Add(firstWarningAfter).Sub(now)
	}
	if wait > 0 {
		result.after = wait
		return result
	}
	result.write, result.remember.written = true, now
	stamped := *want
	stamped.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	if current != nil && current.Status == want.Status {
		stamped.LastTransitionTime = current.LastTransitionTime
	}
	result.condition, result.remember.last = &stamped, &stamped
	if !sameReason {
		result.announceEvent(current, now)
	}
	return result
}

// announceEvent gives an event with a condition that changes what it says.
func (d *decision) announceEvent(current *metav1.Condition, now time.Time) {
	reason := d.condition.Reason
	if d.condition.Status == metav1.ConditionTrue && reason == string(model.Announced) {
		if current == nil || current.Status != metav1.ConditionTrue {
			d.event, d.eventType = EventAnnounced, corev1.EventTypeNormal
		}
		return
	}
	if reason == d.remember.warnedReason && now.Sub(d.remember.warned) < eventInterval {
		return
	}
	d.event, d.eventType = reason, corev1.EventTypeWarning
	if d.condition.Status == metav1.ConditionFalse {
		d.event = EventNotAnnounced
	}
	d.remember.warned, d.remember.warnedReason = now, reason
}
