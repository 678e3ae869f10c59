package report

import "github.com/mooring-ccm/mooring/test/bench/figures"

// reasons say why a target is not reached, by the target's name. They are shown only while that is so, and have to be looked
// through after each run that is published.
var reasons = map[string]string{
	"nodes": "a node costs two writes of the API server, one after the other, and the workers of `--concurrent-node-syncs` wait for them: 10 " +
		"by default, where the tuned reference has 50. On a machine whose API server is busy, that is what bounds it.",
	"routes": "the plugin makes two calls for a route, and `--concurrent-route-syncs` bounds how many are made at once, where the reference " +
		"makes 200.",
	"notready": "it takes two observations of the cloud, a pass over the nodes apart, to believe that instances are gone, and a time in which " +
		"nodes are still until load balancers hear of them. The plain plugin is asked two questions for each node.",
}

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
