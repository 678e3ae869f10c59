package mutants

import (
	"slices"

	"github.com/mooring-ccm/mooring/dev/chaos/overlay"
)

// The schedules that show mutants. All begin with six nodes and three Services. A difference is found at the end of a schedule, or by
// "served" when it is older than Bound: what an operation takes back at its end has to last for longer than that.
const (
	begin = "0s nodes-join names=n-1,n-2,n-3,n-4,n-5,n-6\n0s services-create names=s-1,s-2,s-3\n0s converge\n"

	lies = begin + "0s nodes-silence names=n-1,n-2,n-3,n-4,n-5,n-6 for=30s\n1s cloud-partial operation=ListInstances for=6s\n" +
		"10s cloud-empty operation=ListInstances for=18s\n"
	departures = begin + "0s nodes-leave names=n-5,n-6\n0s services-delete names=s-1\n1s services-demote names=s-2 for=120s\n"
	changes    = begin + "0s nodes-resize names=n-1\n0s services-change names=s-1\n1s nodes-exclude names=n-2 for=120s\n"
	powers     = begin + "0s nodes-stop names=n-1 for=12s\n"
	tampering  = begin + "2s balancers-tamper names=s-1\n2s routes-tamper names=n-1\n"
	refusals   = begin + "0s cloud-status operation=* code=503 for=12s\n1s nodes-join names=n-7\n1s services-create names=s-4\n2s services-delete names=s-1\n"
	panics     = begin + "0s cloud-panic operation=* for=8s\n1s nodes-join names=n-7\n1s services-change names=s-1\n"
	paused     = begin + "0s manager-pause replica=leader for=20s\n19s services-create names=s-4,s-5,s-6,s-7,s-8,s-9\n" +
		"19.5s nodes-exclude names=n-1 for=30s\n22.5s services-create names=s-10\n23s services-change names=s-1,s-2,s-3\n" +
		"24s services-change names=s-1,s-2,s-3\n25s nodes-resize names=n-2\n"
	crashed = begin + "0s manager-crash write=CreateLoadBalancer side=after\n0.2s services-create names=s-4\n" +
		"5s services-delete names=s-4\n"
)

// All are the mutants, each with the schedule that shows it.
func All() []Mutant { return slices.Concat(ofNodeLifecycle, ofServices, ofOthers) }

// ofNodeLifecycle are those by which nodes are deleted or tainted that should not be, or stay.
var ofNodeLifecycle = []Mutant{
	{
		Name: "believes-short-lists", What: "a denial need not last", Schedule: lies,
		File: "internal/controller/nodelifecycle/plan.go",
		Old:  "return row.last.Sub(since) >= settings.MinDenialTime }", New: "return true }",
	},
	{
		Name: "believes-empty-lists", What: "an answer that knows none of the nodes is believed", Schedule: lies,
		File: "internal/controller/nodelifecycle/plan.go",
		Old:  "doubt := doubtOf(nodes, said, settings, now)\n", New: "doubt := HoldReason(\"\")\n",
		More: []overlay.Replacement{{
			Old: "return !e.affirmed.Before(row.believed.Add(-DefaultPeriod)) && now.Sub(e.affirmed) < answerAge", New: "return !now.IsZero()",
		}},
	},
	{
		Name: "keeps-gone-nodes", What: "a node without an instance is never deleted", Schedule: departures,
		File: "internal/controller/nodelifecycle/plan.go",
		Old:  "return decision{cause: causeGone}", New: "return decision{}",
	},
	{
		Name: "keeps-shutdown-taint", What: "the shutdown taint stays when the instance runs again", Schedule: powers,
		File: "internal/controller/nodelifecycle/plan.go",
		Old:  "p.add(action{kind: removeTaint, node: node})", New: "_ = removeTaint",
	},
	{
		Name: "outlives-its-lease", What: "a replica does not notice that its lease is overdue", Schedule: paused,
		File: "internal/election/loss.go",
		Old:  "func (l *Lock) endedAt(now instant) error {", New: "func (l *Lock) endedAt(now instant) error {\n\tif now != (instant{}) {\n\t\treturn nil\n\t}",
		More: []overlay.Replacement{{
			Old: "age >= l.limit() {\n\t\treturn overdue(age)", New: "false && age >= l.limit() {\n\t\treturn overdue(age)",
		}},
	},
}

// ofServices are those of load balancers.
var ofServices = []Mutant{
	{
		Name: "no-finalizer", What: "a load balancer is made before the Service has its finalizer", Schedule: crashed,
		File: "internal/controller/service/plan.go",
		Old:  "\tif hasFinalizer(seen.service) {\n\t\treturn nil", New: "\tif hasFinalizer(seen.service) || seen.made == nil || !seen.made.ensured {\n\t\treturn nil",
	},
	{
		Name: "releases-first", What: "the finalizer is taken away without deleting the load balancer", Schedule: departures,
		File: "internal/controller/service/plan.go",
		Old:  "\tif !seen.removed {\n", New: "\tif !seen.removed && seen.service == nil {\n",
	},
	{
		Name: "publishes-nothing", What: "the status does not get the address", Schedule: begin,
		File: "internal/controller/service/plan.go",
		Old:  "\tif made.unpublished {\n", New: "\tif made.unpublished && len(ingress) > 0 {\n",
	},
	{
		Name: "ignores-ports", What: "a change of the Service is no reason to change its load balancer", Schedule: changes,
		File: "internal/controller/service/plan.go",
		Old:  "return changes(seen.made.lastEnsured, want.inputs)", New: "return nil",
	},
	{
		Name: "ignores-exclusion", What: "a node is excluded by the former name of the label only", Schedule: changes,
		File: "internal/controller/service/desired.go",
		Old:  "node.Labels[corev1.LabelNodeExcludeBalancers]; labeled", New: "node.Labels[\"alpha.service-controller.kubernetes.io/exclude-balancer\"]; labeled",
	},
	{
		Name: "ignores-the-class", What: "Services of another class are served", Schedule: begin,
		File: "internal/controller/service/desired.go",
		Old:  "return slices.Contains(c.Names, *class)", New: "return len(*class) > 0",
	},
	{
		Name: "no-drift-check", What: "what was changed in the cloud stays so", Schedule: tampering,
		File: "internal/controller/service/drift.go",
		Old:  "repair := len(differ) > 0 && (", New: "repair := len(differ) > len(what) && (",
	},
	{
		Name: "no-retry-of-services", What: "a Service that failed is not tried again", Schedule: refusals,
		File: "internal/controller/service/reconcile.go",
		Old:  "\t\t}\n\t}\n\treturn delay\n", New: "\t\t}\n\t}\n\treturn delay + 24*time.Hour\n",
	},
}

// ofOthers are those of nodes, ownership, routes and the client of the cloud.
var ofOthers = []Mutant{
	{
		Name: "no-retry-of-nodes", What: "a node that failed is not tried again", Schedule: refusals,
		File: "internal/controller/node/reconcile.go",
		Old:  "return reconcile.Result{RequeueAfter: follows.pause, Priority: &priority}", New: "return reconcile.Result{RequeueAfter: follows.pause + 24*time.Hour, Priority: &priority}",
	},
	{
		Name: "forgets-labels", What: "an initialized node does not get another instance type", Schedule: changes,
		File: "internal/controller/node/plan.go",
		Old:  "\t\tcase change:\n", New: "\t\tcase change && key == \"\":\n",
	},
	{
		Name: "takes-all-nodes", What: "a provider ID of another scheme is taken for one of ours", Schedule: begin + "0s nodes-leave names=n-6\n",
		File: "internal/instances/ownership/ownership.go",
		Old:  "return decided(Foreign, notDeclared)", New: "return decided(Ours, notDeclared)",
	},
	{
		Name: "keeps-routes", What: "routes of deleted nodes stay", Schedule: departures,
		File: "internal/controller/route/plan.go",
		Old:  "\t\treturn \"its node is gone\", true\n", New: "\t\treturn \"\", false\n",
		More: []overlay.Replacement{{Old: "\t\treturn \"it drops packets\", true\n", New: "\t\treturn \"\", false\n"}},
	},
	{
		Name: "no-routes", What: "a route that is missing is not made again", Schedule: tampering,
		File: "internal/controller/route/plan.go",
		Old:  "\tp.makeRoom(len(sorted)-len(p.plan.removals), creations)\n", New: "\tif len(sorted) == 0 {\n\t\tp.makeRoom(0, creations)\n\t}\n",
	},
	{
		Name: "no-recover", What: "a panic of the plugin is not caught", Schedule: panics,
		File: "internal/cloud/guard/panic.go",
		Old:  "\t\tswitch value := recover(); {\n", New: "\t\tswitch value := any(nil); {\n",
	},
}
