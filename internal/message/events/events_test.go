package events

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

func TestMessagesAreBounded(t *testing.T) {
	for name, recordIt := range map[string]func(record.EventRecorder, string){
		"Event":  func(r record.EventRecorder, text string) { r.Event(&corev1.Node{}, "Warning", "Reason", text) },
		"Eventf": func(r record.EventRecorder, text string) { r.Eventf(&corev1.Node{}, "Warning", "Reason", "%s", text) },
		"AnnotatedEventf": func(r record.EventRecorder, text string) {
			r.AnnotatedEventf(&corev1.Node{}, nil, "Warning", "Reason", "%s", text)
		},
	} {
		fake := record.NewFakeRecorder(2)
		recordIt(Bounded(fake), strings.Repeat("much \x1b", 10_000))
		recordIt(Bounded(fake), "100% sure")
		if got := <-fake.Events; len(got) > maxMessage+len("Warning Reason ") || strings.Contains(got, "\x1b") || !strings.HasSuffix(got, "...") {
			t.Errorf("%s: %d bytes: %.100q", name, len(got), got)
		}
		if got := <-fake.Events; got != "Warning Reason 100% sure" {
			t.Errorf("%s: %q", name, got)
		}
	}
}
