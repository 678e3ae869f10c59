package rights_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/deploy"
)

// TestShippedRightsAreTheLeastThatWork plays the scenario in the ways in which a manager with these rights may run, and then
// holds the manifest against what was asked for.
func TestShippedRightsAreTheLeastThatWork(t *testing.T) {
	separate := slices.Concat(deploy.RBAC, []byte("---\n"), deploy.SeparateIdentitiesRBAC)
	grants, err := grantsOf(separate)
	must(t, err)
	asked := comparison{grants: grants, requests: map[request]int{}}
	for _, way := range []struct {
		name                string
		rights              []byte
		args, apiServerArgs []string
	}{
		{name: "one identity", rights: deploy.RBAC},
		{name: "an identity for each controller", rights: separate, args: []string{"--use-service-account-credentials"}},
		// As before Kubernetes 1.34. A newer one answers a watch with what there is at first, and is not asked for lists.
		{name: "an API server that cannot stream lists", rights: deploy.RBAC, apiServerArgs: []string{"--feature-gates=WatchList=false"}},
	} {
		t.Run(way.name, func(t *testing.T) {
			s := newScenario(t, way.rights, way.apiServerArgs...)
			s.delegate()
			s.args = append(s.args, way.args...)
			s.run(t, managerStarts(), servingSteps(), controllerSteps(), managerHandsOver())
			for r, count := range s.end(t) {
				asked.requests[r] += count
			}
		})
	}
	if t.Failed() {
		return
	}
	if unused := asked.unused(); len(unused) > 0 {
		t.Errorf("deploy/rbac.yaml grants what no request needed, or what another grant would have done for:\n%s", listed(unused))
	}
	if refused := asked.refused(); len(refused) > 0 {
		t.Errorf("deploy/rbac.yaml does not grant what was asked for:\n%s", listed(refused))
	}
	if wide := asked.tooWide(); len(wide) > 0 {
		t.Errorf("deploy/rbac.yaml grants more objects than were asked for:\n  %s", strings.Join(wide, "\n  "))
	}
	if t.Failed() || testing.Verbose() {
		t.Logf("\n%s", asked)
	}
}

// TestDocumentedClusterRoleSuffices plays the scenario under the ClusterRole that the Kubernetes documentation prints, with
// leases and the status of Services added. What is refused must be what the manager has said that it does without.
func TestDocumentedClusterRoleSuffices(t *testing.T) {
	rights, err := os.ReadFile("testdata/documented-clusterrole.yaml")
	must(t, err)
	s := newScenario(t, rights)
	s.run(t, managerStarts(), controllerSteps(), managerHandsOver())
	asked := comparison{requests: s.end(t)}
	for _, refused := range asked.refused() {
		for _, replica := range s.replicas {
			if !replica.dispensable(t)[refused.missing()] {
				t.Errorf("refused, and not among what the manager has said that it does without: %s", refused)
			}
		}
	}
	if t.Failed() || testing.Verbose() {
		t.Logf("\n%s", asked)
	}
}

// listed writes one element a line.
func listed[T fmt.Stringer](elements []T) string { return "  " + strings.Join(texts(elements), "\n  ") }
