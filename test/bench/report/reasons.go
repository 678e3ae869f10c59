package report

import "github.com/mooring-ccm/mooring/test/bench/figures"

// reasons say why a target is not reached, by the target's name. They are shown only while that is so.
var reasons = map[string]string{}

// unexplained is what stands where nobody has found out yet.
const unexplained = "not explained yet."

// reason is a target that is not reached, with why.
type reason struct{ Says, Who, Why string }

func reasonsFor(checks []figures.Check) []reason {
	var found []reason
	for _, check := range checks {
		if check.Met() {
			continue
		}
		why, known := reasons[check.Target]
		if !known {
			why = unexplained
		}
		found = append(found, reason{Says: check.Says, Who: plugin(check.Variant), Why: why})
	}
	return found
}
