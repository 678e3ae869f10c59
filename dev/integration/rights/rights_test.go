package rights_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/must"
)

// withoutStreams makes an API server one of before Kubernetes 1.34: a newer one answers a watch with what there is at first, and is not
// asked for lists.
const withoutStreams = "--feature-gates=WatchList=false"

// way is a way in which the manager is installed, and what it does there.
type way struct {
	name string
	// manifest is where the rights are, for people, and rights what is in it.
	manifest string
	rights   []byte
	args     []string
	// apiServerArgs are those of kube-apiserver.
	apiServerArgs []string
	// play runs everything that the manager does when it is installed in this way.
	play func(t *testing.T, w way) *scenario
}

// ways are all in which Mooring is installed that have rights of their own. TestDryRun is about another one.
func ways() []way {
	const one, metal = "deploy/rbac.yaml", "deploy/manifests/rbac-metal.yaml"
	separate := []string{"--use-service-account-credentials"}
	return []way{
		{name: "one identity", manifest: one, rights: deploy.RBAC, play: playSim},
		{name: "one identity, and an API server that cannot stream lists", manifest: one, rights: deploy.RBAC,
			apiServerArgs: []string{withoutStreams}, play: playSim},
		{name: "an identity for each controller", manifest: "deploy/manifests/rbac-separate-identities.yaml", rights: deploy.SeparateIdentitiesRBAC,
			args: append(separate, "--service-account-prefix=cloud-controller-manager-"), apiServerArgs: []string{withoutStreams}, play: playSim},
		{name: "identities of the reference", manifest: "deploy/manifests/rbac-reference-identities.yaml", rights: deploy.ReferenceIdentitiesRBAC,
			args: separate, apiServerArgs: []string{withoutStreams}, play: playSim},
		{name: "serving certificates", manifest: "deploy/manifests/rbac-kubelet-serving-certificate.yaml", rights: deploy.With(deploy.RBAC, deploy.ServingCertificateRBAC),
			args: []string{"--controllers=*,kubelet-serving-certificate"}, apiServerArgs: []string{withoutStreams}, play: playSim},
		{name: "metal", manifest: metal, rights: deploy.MetalRBAC, apiServerArgs: []string{withoutStreams}, play: playMetal},
		{name: "load balancers only", manifest: "deploy/manifests/rbac-load-balancers-only.yaml", rights: deploy.LoadBalancersOnlyRBAC,
			args: []string{"--controllers=service-lb-controller"}, apiServerArgs: []string{withoutStreams}, play: playLoadBalancersOnly},
	}
}

// TestShippedRightsAreTheLeastThatWork plays what the manager does in each way in which it is installed, and then holds each manifest
// against what was asked for under it: no verb that is granted was not needed, and none was refused.
func TestShippedRightsAreTheLeastThatWork(t *testing.T) {
	var mu sync.Mutex
	asked, rights := map[string]map[request]int{}, map[string][]byte{}
	t.Run("ways", func(t *testing.T) {
		for _, w := range ways() {
			t.Run(w.name, func(t *testing.T) {
				t.Parallel()
				requests := w.play(t, w).end(t)
				mu.Lock()
				defer mu.Unlock()
				rights[w.manifest] = w.rights
				if asked[w.manifest] == nil {
					asked[w.manifest] = map[request]int{}
				}
				for r, count := range requests {
					asked[w.manifest][r] += count
				}
			})
		}
	})
	if t.Failed() {
		return
	}
	for manifest, requests := range asked {
		requireLeast(t, manifest, rights[manifest], requests)
	}
}

// playSim makes every controller work for the simulated cloud.
func playSim(t *testing.T, w way) *scenario {
	s := newSimScenario(t, w.rights, w.apiServerArgs...)
	s.delegate()
	s.args = append(s.args, w.args...)
	s.run(t, managerStarts(), servingSteps(), controllerSteps(), certificateSteps(w), managerHandsOver(), certificateSteps(w), podSteps())
	return s
}

// requireLeast fails unless the rights of a manifest are what the requests needed, no less and no more.
func requireLeast(t *testing.T, manifest string, rights []byte, requests map[request]int) {
	t.Helper()
	grants, err := grantsOf(rights)
	must.NoError(t, err)
	asked := comparison{grants: grants, requests: requests}
	unused, refused, wide := asked.unused(), asked.refused(), asked.tooWide()
	if len(unused)+len(refused)+len(wide) > 0 || testing.Verbose() {
		t.Logf("%s\n%s", manifest, asked) // before the errors: what is cut off a long output is its beginning
	}
	if len(unused) > 0 {
		t.Errorf("%s grants what no request needed, or what another grant would have done for:\n%s", manifest, listed(unused))
	}
	if len(refused) > 0 {
		t.Errorf("%s does not grant what was asked for:\n%s", manifest, listed(refused))
	}
	if len(wide) > 0 {
		t.Errorf("%s grants more objects than were asked for:\n  %s", manifest, strings.Join(wide, "\n  "))
	}
}

// TestDocumentedClusterRoleSuffices plays the scenario under the ClusterRole that the Kubernetes documentation prints, with
// leases and the status of Services added. What is refused must be what the manager has said that it does without.
func TestDocumentedClusterRoleSuffices(t *testing.T) {
	rights, err := os.ReadFile("testdata/documented-clusterrole.yaml")
	must.NoError(t, err)
	s := newSimScenario(t, rights)
	s.run(t, managerStarts(), controllerSteps(), managerHandsOver())
	asked := comparison{requests: s.end(t)}
	for _, refused := range asked.refused() {
		for _, replica := range s.replicas {
			said, any := replica.dispensable(t), refused
			any.name = ""
			if !said[refused.missing()] && !said[any.missing()] {
				t.Errorf("refused, and not among what the manager has said that it does without: %s", refused)
			}
		}
	}
	if t.Failed() || testing.Verbose() {
		t.Logf("\n%s", asked)
	}
}

// listed writes one element a line.
func listed[T fmt.Stringer](elements []T) string {
	lines := texts(elements)
	slices.Sort(lines)
	return "  " + strings.Join(lines, "\n  ")
}
