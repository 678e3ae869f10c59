package report

import (
	"fmt"
	"strings"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
)

// reasons say why a target is missed, by the target's name. The page shows a reason only while that is so. Look through them before a run is published.
var reasons = map[string]string{
	"growth-resident": "Resident memory includes garbage: Go lets the heap grow to twice what is in use before it collects. " +
		"Collecting at half of that (`GOGC=50`) left 15.7 KiB, for a fifth more processor time of a join. It is not the default.",
	"growth-services-time": "The API server creates each Service more slowly than the one before, with any manager: it counts all cluster IPs each time. " +
		"Measured alone, the first 333 took 0.73 s and the last 333 of 5,000 took 1.94 s.",
	"growth-services-API-requests": "Events are written at most ten a second. The larger cluster takes longer, see the time of Services, and so more of them are written: " +
		"14 in each second with 1,000 nodes, 10 with 15,000.",
	"growth-services-processor-time": "What the manager does at rest goes on meanwhile. In an hour that takes 250 s with 15,000 nodes, which is 9.5 s of the 137 s in which " +
		"the Services come. Without it the exponent would be 0.99.",
	"growth-quota": "Refreshes begin after a minute: 1,000 nodes join with 1,001 calls, 5,000 with 5,769. A call takes 4.9 ms of processor time with 1,000 nodes, " +
		"and 5.2 ms with 5,000.",
	"nodes":      joins,
	"many-nodes": joins,
	"nodes-routed": "Each node costs two writes, a route, and a third write of the node. The API server and the cloud share two cores with the manager. " +
		"Mooring begins with routes once the nodes are initialized.",
	"nodes-before-routes": joins,
	"bulk-calls": "A node without provider ID needs a listing that began after the node appeared. While nodes appear one after the other, Mooring lists " +
		"for three quarters of the time, whatever their number.",
	"routes": "The reference makes a route and writes a condition within two seconds, after five seconds of waiting for its clock. Mooring can save " +
		"that wait only: the plugin makes two calls for a route, and a thousand nodes take a second to appear.",
	"memory": "Resident memory counts the pages of the program's file: 49 MiB of the reference's and 64 MiB of Mooring's, which the kernel can drop. " +
		"After 5,000 nodes have joined, 44 MiB and 50 MiB are in use; the rest is garbage that Go has not yet collected. " +
		"Six tenths of the reference's peak are less than the file and what is in use.",
	"behind": "Runs of two seconds differ by more: five more of `services-200` took 0.88 to 1.11 times the reference's time with the same flags. " +
		"In `services-deleted`, each of 200 deletions waited for a write of the record of load balancers. They share writes since: it takes 0.8 times.",
	"quota-refused": "The flags allow 50 questions at once, and the cloud grants 20: of 28 refusals in a third run, 15 came in the first second. The others " +
		"came one at a time, as Mooring tried a higher rate. The reference meets 672.",
	"bulk-steady": "An hour would have twelve listings of ten pages, and a list of routes each half a minute. The reference lists routes every ten seconds.",
	"notready-updates": "Nodes that leave within a second are one change. Where the API server takes longer for 500 deletions, each part is one, and the sim " +
		"refuses targets whose nodes are still to be deleted. With two busy loops beside it each load balancer had 1 update, with five 4.5.",
	"notready-one": "Mooring asks again for an instance before it deletes its node: 2,000 questions, one after the other. The reference asks 1,500.",
	"notready-questions": "The reference asks 4,500: it asks about a machine that is off in each monitor period, as Mooring does. Mooring asks once more " +
		"before it deletes a node.",
	"notready-at-once": "Mooring asks again for an instance before it deletes its node. It updates load balancers once no node has come or gone for two " +
		"seconds.",
}

// joins is why it is hard to be faster with nodes that join.
const joins = "Each node costs two writes to the API server. Until all nodes have joined, the API server, etcd and the cloud use 85 % of two busy cores, " +
	"with either manager. Nine tenths of the time would need a manager that uses half of Mooring's processor time " +
	"([why that is hard](../dev/docs/design/nodes.md#13))."

// unexplained is the reason of a target that has none.
const unexplained = "Not explained yet."

// targetsText says how many targets were reached, and of each of the others by how much not. Targets with one reason share an item.
func targetsText(checks []figures.Check) string {
	var reasonsInOrder []string
	missed := map[string][]string{}
	reached := 0
	for _, check := range checks {
		if check.Met() {
			reached++
			continue
		}
		why, known := reasons[check.Target]
		if !known {
			why = unexplained
		}
		if missed[why] == nil {
			reasonsInOrder = append(reasonsInOrder, why)
		}
		missed[why] = append(missed[why], fmt.Sprintf("**%s** (%s): wanted ≤ %s, reached %s.",
			check.Says, who(check.Variant), amount(check.Want, check.Unit), reachedText(check)))
	}
	text := fmt.Sprintf("Mooring reaches %d of %d [targets](../dev/docs/benchmarks.md#targets).", reached, len(checks))
	if len(missed) == 0 {
		return text + "\n"
	}
	text += " It misses:\n\n"
	for _, why := range reasonsInOrder {
		text += "- " + strings.Join(missed[why], "\n  ") + "\n  " + why + "\n"
	}
	return text
}
