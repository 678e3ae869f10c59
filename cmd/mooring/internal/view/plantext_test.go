package view_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cloud-provider/names"

	"github.com/mooring-ccm/mooring/ccm/plan"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/view"
)

// noon is when everything is looked at.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// hold is the intent to keep a node, as a list of conditions that grows shows it.
func hold(name string) plan.Intent {
	return plan.Intent{
		Controller: names.CloudNodeLifecycleController, Where: plan.Kubernetes, Verb: "patch status", Effect: plan.Alters,
		Kind: "Node", Name: name, Why: "more nodes are denied than may go at once",
		Changes: []plan.Change{{Path: "/status/conditions/4/type", To: "CloudInstanceGone"}},
	}
}

func fixture() view.Plan {
	long := strings.Repeat("0123456789", 8)
	return view.Plan{Provider: "sim", Cluster: "blue", Since: noon.Add(-5 * time.Minute), Intents: []plan.Intent{
		hold("denied"),
		{Where: plan.Kubernetes, Verb: "delete", Effect: plan.Deletes, Kind: "Node", Name: "ghost", Why: "the cloud denies its instance"},
		{Where: plan.TheCloud, Verb: "CreateRoute", Effect: plan.Creates, Kind: "Route", Name: "10.244.2.0/24",
			Changes: []plan.Change{{Path: "/targetNode", To: "node-002"}}},
		{Where: plan.TheCloud, Verb: "EnsureLoadBalancer", Effect: plan.Alters, Kind: "Service", Namespace: "shop", Name: "web",
			Why: "drifted\x1b[2J", Changes: []plan.Change{{Path: "/targets", To: []any{"a", "b"}}}},
		{Where: plan.Kubernetes, Verb: "patch status", Effect: plan.Alters, Kind: "Service", Namespace: "shop", Name: "web",
			Changes: []plan.Change{
				{Path: "/a", From: 1.0, To: 2.0}, {Path: "/b", From: "old"}, {Path: "/c", To: long},
				{Path: "/4"}, {Path: "/5"}, {Path: "/6"}, {Path: "/7"}, {Path: "/8"}, {Path: "/9"}, {Path: "/10"},
			}},
	}}
}

func TestPlanText(t *testing.T) {
	want := `Plan for cluster "blue", provider "sim", after a dry run of 5m

Node denied
  ! hold back the deletion           more nodes are denied than may go at once
      + /status/conditions/4/type: "CloudInstanceGone"

Node ghost
  - delete                           the cloud denies its instance

Route 10.244.2.0/24
  + CreateRoute in the cloud
      + /targetNode: "node-002"

Service shop/web
  ~ EnsureLoadBalancer in the cloud  drifted·[2J
      + /targets: ["a","b"]
  ~ patch status
      ~ /a: 1 -> 2
      - /b: "old"
      + /c: "01234567890123456789012345678901234567890123456789012345...
      + /4: null
      + /5: null
      + /6: null
      + /7: null
      + /8: null
      ... and 2 more fields, which --all shows

1 to create, 2 to change, 1 to delete, 1 held
`
	if diff := cmp.Diff(want, fixture().Text(noon, view.Style{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	all := fixture().Text(noon, view.Style{All: true})
	for _, want := range []string{"/10: null", strings.Repeat("0123456789", 8)} {
		if !strings.Contains(all, want) || strings.Contains(all, "--all") {
			t.Errorf("with All it lacks %q, or speaks of more:\n%s", want, all)
		}
	}
	if colored := fixture().Text(noon, view.Style{Color: true}); !strings.Contains(colored, "\x1b[31m-\x1b[0m delete") ||
		strings.Contains(colored, "\x1b[2J") {
		t.Errorf("colors are missing, or not only ours:\n%q", colored)
	}
}

// A plan says what was compared and found to be the same, and what was not compared.
func TestPlanSaysWhatWasCompared(t *testing.T) {
	compared := view.Plan{Since: noon.Add(-time.Hour), Compared: &plan.Compared{LoadBalancers: 3, NotCompared: []string{"listeners", "targets"}}}
	want := "Of 3 load balancers nothing differs. Not compared: listeners; targets.\n0 to create"
	if got := compared.Text(noon, view.Style{}); !strings.Contains(got, want) || !strings.Contains(got, "There is nothing to do.") {
		t.Errorf("it lacks %q:\n%s", want, got)
	}
}

func TestPlanOfNothing(t *testing.T) {
	got := view.Plan{Provider: "sim", Cluster: "blue", Since: noon.Add(-3 * time.Second)}.Text(noon, view.Style{})
	for _, want := range []string{"after a dry run of 3s", "has only begun", "There is nothing to do.", "0 to create, 0 to change, 0 to delete, 0 held"} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %q:\n%s", want, got)
		}
	}
}

// A node that is let go of is a change; one whose hold gets another reason is held still.
func TestHolds(t *testing.T) {
	released := hold("a")
	released.Changes = []plan.Change{{Path: "/status/conditions/4/type", From: "CloudInstanceGone"}}
	moved := hold("b")
	moved.Changes = append(released.Changes, plan.Change{Path: "/status/conditions/0/type", From: "Ready", To: "CloudInstanceGone"})
	renamed := hold("c")
	renamed.Changes = []plan.Change{{Path: "/status/conditions/4/reason", From: "NotConfirmed", To: "DeletionLimit"}}
	other := hold("d")
	other.Controller = names.CloudNodeController
	got := view.Plan{Intents: []plan.Intent{released, moved, renamed, other}}.Counts()
	if want := (view.Counts{Change: 2, Held: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestSecretsAreHidden(t *testing.T) {
	given := view.Plan{Intents: []plan.Intent{{
		Kind: "Secret", Name: "s", Changes: []plan.Change{{Path: "/data/x", From: "b2xk", To: "bmV3"}, {Path: "/data/y", To: "bmV3"}},
	}}}
	want := []plan.Change{{Path: "/data/x", From: "(hidden)", To: "(hidden)"}, {Path: "/data/y", To: "(hidden)"}}
	if diff := cmp.Diff(want, given.WithoutSecrets().Intents[0].Changes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if text := given.Text(noon, view.Style{All: true}); strings.Contains(text, "b2xk") || strings.Contains(text, "bmV3") {
		t.Errorf("a secret is shown:\n%s", text)
	}
	if given.Intents[0].Changes[0].To != "bmV3" {
		t.Error("the plan that was given has changed")
	}
}
