package rights_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mooring-ccm/mooring/ccm/plan"
	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// planReader is a ServiceAccount default/planner that may read the plan.
const planReader = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: planner
rules:
- nonResourceURLs: [/plan]
  verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: planner
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: planner
subjects:
- kind: ServiceAccount
  name: planner
  namespace: default
`

// TestDryRun shows a cluster with work for every controller to a manager that may only read, and then to one that may write.
func TestDryRun(t *testing.T) {
	s := newSimScenario(t, deploy.DryRunRBAC, withoutStreams)
	s.delegate()
	s.workForAll(t)
	must.NoError(t, s.cloud.Admin.ResetCounts(t.Context()))
	s.args = append(s.args, "--dry-run")
	s.launch(t)
	token := s.planner(t)
	var before error
	poll.Until(t, "the plan holds all that there is to do", func(ctx context.Context) (problem error) {
		plan, err := s.leader().plan(ctx, token)
		if err != nil {
			return errors.Join(before, err)
		}
		defer func() { before = problem }()
		return lacking(plan, map[string]string{
			"kubernetes patch Node node-001":               "/spec/providerID",
			"kubernetes patch status Node node-001":        "/status/addresses",
			"kubernetes delete Node ghost":                 "",
			"cloud EnsureLoadBalancer Service web":         "/targets",
			"kubernetes patch status Service web":          "/metadata/finalizers",
			"cloud CreateRoute Route 10.244.2.0/24":        "/targetNode",
			"cloud DeleteRoute Route 10.244.99.0/24":       "/targetNode",
			"cloud DeleteRoute Route 10.244.98.0/24":       "/targetNode",
			"kubernetes patch status Node node-002":        "/status/conditions",
			"kubernetes patch Node node-003":               "/spec/taints",
			"cloud EnsureLoadBalancerDeleted Service gone": "",
			"kubernetes patch status Service gone":         "/metadata/finalizers",
		})
	})
	poll.Until(t, "other users must not read it", func(ctx context.Context) error {
		return s.leader().answers(ctx, "/plan", "", http.StatusForbidden)
	})
	requests := s.end(t)
	s.requireUnwritten(t, requests)
	requireLeast(t, "deploy/manifests/rbac-dry-run.yaml", deploy.DryRunRBAC, requests)
}

// workForAll leaves something to do for every controller.
func (s *scenario) workForAll(t *testing.T) {
	t.Helper()
	s.register(t, "node-001")
	s.silent(t, "ghost", "sim://i-99999999")
	off := s.cloud.Change(t, "node-003", func(spec *api.InstanceSpec) { spec.Power = api.PowerOff })
	s.silent(t, "node-003", "sim://"+off.ID)
	routed, err := s.cloud.Client.GetInstanceByName(t.Context(), "node-002")
	must.NoError(t, err)
	s.silent(t, "node-002", "sim://"+routed.ID)
	s.report(t, "node-002", corev1.ConditionTrue)
	s.allocate(t, "node-002", "10.244.2.0/24")
	_, err = s.cloud.Client.CreateRoute(t.Context(), api.RouteSpec{
		Cluster: simtest.ClusterName, Name: "stale", DestinationCIDR: "10.244.99.0/24", TargetInstance: routed.ID,
	})
	must.NoError(t, err)
	// Before the route of a node that is gone is removed, the API server is asked whether it is.
	gone, err := s.cloud.Client.GetInstanceByName(t.Context(), s.create(t))
	must.NoError(t, err)
	_, err = s.cloud.Client.CreateRoute(t.Context(), api.RouteSpec{
		Cluster: simtest.ClusterName, Name: "orphaned", DestinationCIDR: "10.244.98.0/24", TargetInstance: gone.ID,
	})
	must.NoError(t, err)
	for name, finalizers := range map[string][]string{"web": nil, "gone": {"service.kubernetes.io/load-balancer-cleanup"}} {
		_, err := s.admin.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		must.NoError(t, err)
	}
	must.NoError(t, s.admin.CoreV1().Services(metav1.NamespaceDefault).Delete(t.Context(), "gone", metav1.DeleteOptions{}))
}

// silent makes a node that was initialized once and has not reported since.
func (s *scenario) silent(t *testing.T, name, providerID string) {
	t.Helper()
	_, err := s.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
	s.report(t, name, corev1.ConditionUnknown)
}

// lacking returns what of the wanted intents a plan does not hold: by "where verb kind name" the path of a change.
func lacking(intents []plan.Intent, wanted map[string]string) error {
	var missing []string
	for what, path := range wanted {
		found := slices.ContainsFunc(intents, func(intent plan.Intent) bool {
			if strings.Join([]string{intent.Where, intent.Verb, intent.Kind, intent.Name}, " ") != what {
				return false
			}
			return path == "" || slices.ContainsFunc(intent.Changes, func(change plan.Change) bool { return strings.HasPrefix(change.Path, path) })
		})
		if !found {
			missing = append(missing, what+" "+path)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		var has []string
		for _, intent := range intents {
			has = append(has, fmt.Sprintf("%s %s %s %s %v", intent.Where, intent.Verb, intent.Kind, intent.Name, intent.Changes))
		}
		return fmt.Errorf("it lacks\n  %s\nand has\n  %s", strings.Join(missing, "\n  "), strings.Join(has, "\n  "))
	}
	return nil
}

// planner returns the token of who may read the plan.
func (s *scenario) planner(t *testing.T) string {
	t.Helper()
	must.NoError(t, s.cluster.Apply(t.Context(), []byte(planReader)))
	kubeconfig, err := s.cluster.ServiceAccountKubeconfig(t.Context(), metav1.NamespaceDefault, "planner")
	must.NoError(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must.NoError(t, err)
	return config.BearerToken
}

// plan asks the secure port for the plan.
func (d *daemon) plan(ctx context.Context, token string) ([]plan.Intent, error) {
	body, err := d.OK(ctx, "/plan", token)
	if err != nil {
		return nil, err
	}
	var answer plan.Plan
	err = json.Unmarshal([]byte(body), &answer)
	return answer.Intents, err
}

// requireUnwritten fails if the manager has written anything anywhere.
func (s *scenario) requireUnwritten(t *testing.T, requests map[request]int) {
	t.Helper()
	for request, count := range requests {
		if slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, request.verb) &&
			!strings.HasSuffix(request.resource, "reviews") {
			t.Errorf("%d times: %s", count, request)
		}
	}
	counts, err := s.cloud.Admin.Counts(t.Context())
	must.NoError(t, err)
	if written := counts.Received(api.OpCreateLoadBalancer, api.OpUpdateLoadBalancer, api.OpDeleteLoadBalancer, api.OpCreateRoute,
		api.OpReplaceRoute, api.OpDeleteRoute, api.OpCreateInstance, api.OpUpdateInstance, api.OpDeleteInstance); written > 0 {
		t.Errorf("the cloud was changed %d times: %+v", written, counts.Operations)
	}
}
