package run

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/mooring-ccm/mooring/dev/simulation/double"
)

// ofLists stands for the object of a call that lists.
const ofLists = "lists"

// line is a call or a write.
type line struct {
	at time.Duration
	// timed is the text with the times, and text the one without.
	timed, text string
}

// withEvents returns the calls and writes of a manager about each object, those of Events included. client-go writes an Event again after a random time
// if that fails, which no digest may depend on.
func withEvents(record double.Record) map[string][]line { return lines(record, record.Events) }

// lines returns the calls and writes of a manager about each object, and some writes of Events, in the order of time.
func lines(record double.Record, events []double.EventWrite) map[string][]line {
	of := map[string][]line{}
	for _, call := range record.Calls {
		object := cmp.Or(call.Object, ofLists)
		took, text := "", ""
		if call.Ended >= 0 {
			took = " " + (call.Ended - call.Began).Round(10*time.Millisecond).String()
		} else {
			text = " never ends"
		}
		if call.Err != nil {
			text = fmt.Sprintf(": %.24s", call.Err)
		}
		if call.Targets != nil {
			text += fmt.Sprintf(" %d targets port %d", len(call.Targets), call.Port)
		}
		of[object] = append(of[object], line{
			call.Began, fmt.Sprintf("%8s %s%s%s", call.Began.Round(10*time.Millisecond), call.Method, took, text), call.Method + text,
		})
	}
	for _, write := range record.Writes {
		text := write.Verb + " " + write.Resource
		of[write.Object] = append(of[write.Object], line{write.At, fmt.Sprintf("%8s   %s", write.At.Round(10*time.Millisecond), text), text})
	}
	for _, event := range events {
		text := "event " + event.Reason
		of[event.Object] = append(of[event.Object], line{event.At, fmt.Sprintf("%8s   %s", event.At.Round(10*time.Millisecond), text), text})
	}
	for _, all := range of {
		slices.SortStableFunc(all, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	}
	return of
}
