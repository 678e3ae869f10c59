package harness

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// EventsOf returns the events of a component on a node, as "Type Reason: message". With a UID, those on an earlier node of the same
// name are left out.
func EventsOf(t testing.TB, client kubernetes.Interface, component, node string, uid types.UID) []string {
	t.Helper()
	list, err := client.CoreV1().Events(corev1.NamespaceAll).List(t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + node,
	})
	must.NoError(t, err)
	var events []string
	for _, event := range list.Items {
		if event.Source.Component == component && (uid == "" || event.InvolvedObject.UID == uid) {
			events = append(events, event.Type+" "+event.Reason+": "+event.Message)
		}
	}
	return events
}

// WaitForEvent polls until one of the events that EventsOf returns begins as given, and returns it.
func WaitForEvent(t testing.TB, client kubernetes.Interface, component, node string, uid types.UID, beginning string) string {
	t.Helper()
	var found string
	poll.Until(t, "node "+node+" has the event "+beginning, func(context.Context) error {
		events := EventsOf(t, client, component, node, uid)
		for _, event := range events {
			if strings.HasPrefix(event, beginning) {
				found = event
				return nil
			}
		}
		return fmt.Errorf("the events are %q", events)
	})
	return found
}
