// Package events keeps the messages of events readable. A message may contain text from other programs and users.
package events

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"github.com/mooring-ccm/mooring/internal/message"
)

// maxMessage is how long the message of an event may be, in bytes: the events API takes 1 kB for a note.
const maxMessage = 1000

// Bounded returns a recorder whose messages are one printable line of at most 1,000 bytes each.
func Bounded(to record.EventRecorder) record.EventRecorder { return bounded{to} }

type bounded struct{ to record.EventRecorder }

func (b bounded) Event(object runtime.Object, eventtype, reason, text string) {
	b.to.Event(object, eventtype, reason, message.Line(text, maxMessage))
}

func (b bounded) Eventf(object runtime.Object, eventtype, reason, format string, args ...any) {
	b.Event(object, eventtype, reason, fmt.Sprintf(format, args...))
}

func (b bounded) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventtype, reason, format string, args ...any) {
	b.to.AnnotatedEventf(object, annotations, eventtype, reason, "%s", message.Line(fmt.Sprintf(format, args...), maxMessage))
}
