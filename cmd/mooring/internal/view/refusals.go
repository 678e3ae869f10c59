package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/names"
)

// Refusal is a cloud config that a replica has not taken.
type Refusal struct {
	// Object is the ConfigMap or Secret of the cloud config, or the Lease of the election where it is a file, as "Kind namespace/name".
	Object string `json:"object"`
	// Replica is the host name of the replica.
	Replica string `json:"replica"`
	// Since is when it was refused first, as far as events are kept.
	Since time.Time `json:"since"`
	// Message says what is wrong.
	Message string `json:"message"`
}

// refusalsOf returns what replicas refuse now: what each said last about a cloud config, if that was a refusal and is not old.
func refusalsOf(seen Seen) []Refusal {
	type source struct{ object, replica string }
	last := map[source]*corev1.Event{}
	for i := range seen.Events {
		event := &seen.Events[i]
		if event.Reason != names.ReasonCloudConfigRefused && event.Reason != names.ReasonCloudConfigTaken {
			continue
		}
		about := event.InvolvedObject
		from := source{fmt.Sprintf("%s %s/%s", about.Kind, about.Namespace, about.Name), cmp.Or(event.Source.Host, event.ReportingInstance)}
		if last[from] == nil || !timeOf(event).Before(timeOf(last[from])) {
			last[from] = event
		}
	}
	var refusals []Refusal
	for from, event := range last {
		if event.Reason == names.ReasonCloudConfigRefused && seen.Now.Sub(timeOf(event)) <= names.RefusalLifetime {
			since := cmp.Or(event.FirstTimestamp.Time, timeOf(event))
			refusals = append(refusals, Refusal{Object: from.object, Replica: from.replica, Since: since, Message: event.Message})
		}
	}
	slices.SortFunc(refusals, func(a, b Refusal) int {
		return cmp.Or(strings.Compare(a.Object, b.Object), strings.Compare(a.Replica, b.Replica))
	})
	return refusals
}

// writeRefusals writes what is refused, a line each.
func writeRefusals(out *strings.Builder, style Style, now time.Time, refusals []Refusal) {
	for _, refusal := range refusals {
		fmt.Fprintf(out, "%s %s, for %s: %s\n", style.paint("Cloud config refused:", red), Printable(refusal.Object), age(now, refusal.Since), Printable(refusal.Message))
	}
}
