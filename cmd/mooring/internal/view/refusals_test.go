package view_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/view"
	"github.com/mooring-ccm/mooring/internal/names"
)

// What a replica said last counts, and not forever.
func TestRefusals(t *testing.T) {
	of := func(replica, reason, message string, ago time.Duration) corev1.Event {
		said := event("ConfigMap", "kube-system", "mooring", "uid", reason, message, ago)
		said.Source.Host = replica
		return said
	}
	const refused, taken = names.ReasonCloudConfigRefused, names.ReasonCloudConfigTaken
	status := view.Of(view.Seen{Now: noon, Events: []corev1.Event{
		of("a", taken, "a has taken it", 9*time.Minute), of("a", refused, "a goes on: pools[0]: x", 2*time.Minute),
		of("b", refused, "b goes on", 5*time.Minute), of("b", taken, "b has taken it", 4*time.Minute),
		of("gone", refused, "gone goes on", names.RefusalLifetime+time.Second),
		event("Lease", "kube-system", "ccm", "uid", "LeaderElection", "c leads", time.Minute),
	}})
	want := []view.Refusal{{Object: "ConfigMap kube-system/mooring", Replica: "a", Since: noon.Add(-2 * time.Minute), Message: "a goes on: pools[0]: x"}}
	if diff := cmp.Diff(want, status.Refusals); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
	if text := status.Text(view.Style{}); !strings.Contains(text, "\nCloud config refused: ConfigMap kube-system/mooring, for 2m: a goes on: pools[0]: x\n") {
		t.Error(text)
	}
	var page strings.Builder
	if err := status.HTML(&page, view.Seen{Now: noon}, ""); err != nil || !strings.Contains(page.String(), "a goes on: pools[0]: x") {
		t.Errorf("the page does not say it: %v", err)
	}
}
