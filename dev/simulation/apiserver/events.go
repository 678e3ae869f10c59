package apiserver

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
)

// storedField is the name of a field of events.k8s.io in core/v1.
func (c *call) storedField(name string) string {
	if c.resource.Group != eventsv1.GroupName {
		return name
	}
	if rest, ok := strings.CutPrefix(name, "regarding."); ok {
		return "involvedObject." + rest
	}
	if name == "reportingController" {
		return "reportingComponent"
	}
	return name
}

// stored returns an object in the version that the server keeps.
func stored(object runtime.Object) runtime.Object {
	event, ok := object.(*eventsv1.Event)
	if !ok {
		return object
	}
	kept := &corev1.Event{
		ObjectMeta: event.ObjectMeta, EventTime: event.EventTime, ReportingController: event.ReportingController, ReportingInstance: event.ReportingInstance,
		Action: event.Action, Reason: event.Reason, InvolvedObject: event.Regarding, Related: event.Related, Message: event.Note, Type: event.Type,
		Source: event.DeprecatedSource, FirstTimestamp: event.DeprecatedFirstTimestamp, LastTimestamp: event.DeprecatedLastTimestamp, Count: event.DeprecatedCount,
	}
	if series := event.Series; series != nil {
		kept.Series = &corev1.EventSeries{Count: series.Count, LastObservedTime: series.LastObservedTime}
	}
	kept.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Event"))
	return kept
}

// served returns a stored object in the version of a resource.
func served(resource *resource, object runtime.Object) runtime.Object {
	event, ok := object.(*corev1.Event)
	if !ok || resource.Group != eventsv1.GroupName {
		return object
	}
	shown := &eventsv1.Event{
		ObjectMeta: event.ObjectMeta, EventTime: event.EventTime, ReportingController: event.ReportingController, ReportingInstance: event.ReportingInstance,
		Action: event.Action, Reason: event.Reason, Regarding: event.InvolvedObject, Related: event.Related, Note: event.Message, Type: event.Type,
		DeprecatedSource: event.Source, DeprecatedFirstTimestamp: event.FirstTimestamp, DeprecatedLastTimestamp: event.LastTimestamp, DeprecatedCount: event.Count,
	}
	if series := event.Series; series != nil {
		shown.Series = &eventsv1.EventSeries{Count: series.Count, LastObservedTime: series.LastObservedTime}
	}
	shown.SetGroupVersionKind(resource.GroupVersionKind)
	return shown
}

// unschedulable is the field of nodes that a selector may name.
func unschedulable(object runtime.Object) fields.Set {
	return fields.Set{"spec.unschedulable": fmt.Sprint(object.(*corev1.Node).Spec.Unschedulable)}
}
