package report

import "github.com/mooring-ccm/mooring/dev/bench/figures"

// reasons say why a target is not reached, by the target's name. They are shown only while that is so, and have to be looked
// through after each run that is published.
var reasons = map[string]string{
	"growth-resident": "what is resident holds garbage, too: Go lets the heap grow to twice of what is in use before it collects, listings of all " +
		"instances and load balancers included, and keeps a tenth more. Collecting at half of that (`GOGC=50`) left 15.7 KiB while Services come and " +
		"23.0 KiB at rest, for a fifth more of the processor time of a join, and is not the default. A limit of memory (`GOMEMLIMIT`) has it " +
		"collect earlier only when that is near.",
	"growth-time": "the API server creates Services ever more slowly, without any manager, too: after each it goes through all cluster IPs to count " +
		"them (`Used` of its allocator, for a metric). Measured alone, the first 333 took 0.73 s and the last 333 of 5,000 took 1.94 s. Without this " +
		"growth the exponent would be 1.06.",
	"nodes":      joins,
	"many-nodes": joins,
	"nodes-routed": "most of the time goes into two writes of each node, its route, and a third write that says so, and the API server and the " +
		"cloud share two cores with the manager. Ours begins with routes when the nodes are initialized.",
	"nodes-before-routes": joins,
	"bulk-calls": "a node without provider ID needs a listing from after it appeared: an earlier one cannot know a machine that was created since. " +
		"While nodes appear one after the other, a new listing begins three quarters of the time, whatever their number.",
	"routes": "the reference makes a route and writes a condition in some two seconds, after five in which it waits for its clock. What is " +
		"left to save is that wait: the plugin makes two calls for a route, and a thousand nodes take a second to appear.",
	"notready-one": "an instance is asked for again before its node is deleted: 2,000 questions, one after the other, where the reference asks 1,500.",
	"notready-at-once": "an instance is asked for again before its node is deleted, and load balancers hear of nodes that went when none has " +
		"come or gone for two seconds.",
}

// joins is why it is hard to be faster with nodes that join.
const joins = "a node costs two writes of the API server. On two cores, which are busy all the while, the API server, etcd and the cloud take " +
	"85 % of the processor time until all nodes have joined, with either manager. With a plain plugin, nine tenths would take a manager that uses " +
	"little more than half of what ours does, of which no single place takes more than a tenth ([ADR 13](../dev/docs/design/nodes.md#13))."

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
		found = append(found, reason{Says: check.Says, Who: who(check.Variant), Why: why})
	}
	return found
}
