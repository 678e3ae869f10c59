package run

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/mooring-ccm/mooring/dev/simulation/double"
)

// lines returns the calls and writes of a manager about each object, in the order of time.
func lines(record double.Record) map[string][]string {
	type line struct {
		at   time.Duration
		text string
	}
	of := map[string][]line{}
	for _, call := range record.Calls {
		object := cmp.Or(call.Object, "lists")
		text := fmt.Sprintf("%8s %s", call.Began.Round(10*time.Millisecond), call.Method)
		switch {
		case call.Ended < 0:
			text += " never ends"
		case call.Err != nil:
			text += fmt.Sprintf(" %s: %.24s", (call.Ended - call.Began).Round(10*time.Millisecond), call.Err)
		default:
			text += " " + (call.Ended - call.Began).Round(10*time.Millisecond).String()
		}
		if call.Targets != nil {
			text += fmt.Sprintf(" %d targets port %d", len(call.Targets), call.Port)
		}
		of[object] = append(of[object], line{call.Began, text})
	}
	for _, write := range record.Writes {
		of[write.Object] = append(of[write.Object], line{write.At, fmt.Sprintf("%8s   %s %s", write.At.Round(10*time.Millisecond), write.Verb, write.Resource)})
	}
	text := map[string][]string{}
	for object, all := range of {
		slices.SortStableFunc(all, func(a, b line) int { return cmp.Compare(a.at, b.at) })
		for _, one := range all {
			text[object] = append(text[object], one.text)
		}
	}
	return text
}
