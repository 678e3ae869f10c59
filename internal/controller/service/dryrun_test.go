package service

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/dryrun"
)

// Under --dry-run a manager that begins beside one that has done all plans nothing for the load balancers, and calls nothing that changes
// them. What a Service has become since is planned.
func TestADryRunOfWhatIsDonePlansNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		recorder := dryrun.NewRecorder()
		balancer, _ := dryrun.Cloud(e.cloud, recorder).LoadBalancer()
		e.core.reconciler.applier.balancer = balancer
		e.changeNode("a", nodeWith("a"))
		time.Sleep(time.Minute)
		done := serviceWith(named("done"), provided)
		missing := serviceWith(named("missing"), provided)
		e.cloud.mu.Lock()
		e.cloud.balancer[done.UID] = map[string]string{"a": "sim://a"}
		e.cloud.mu.Unlock()
		e.addService(done)
		time.Sleep(time.Minute)
		if planned := recorder.Intents(t.Context()); len(planned) != 0 {
			t.Errorf("planned %+v", planned)
		}
		if compared := recorder.Compared(); compared == nil || compared.LoadBalancers != 1 {
			t.Errorf("compared %+v, want one", compared)
		}
		e.addService(missing)
		time.Sleep(time.Minute)
		if planned := recorder.Intents(t.Context()); len(planned) != 1 || planned[0].Name != "missing" || planned[0].Effect != "create" {
			t.Errorf("planned %+v, want the load balancer that does not exist", planned)
		}
		e.edit(keyOf(done), func(s *corev1.Service) { s.Annotations = map[string]string{"lb": "other"} })
		time.Sleep(time.Second)
		if planned := recorder.Intents(t.Context()); len(planned) != 2 || planned[0].Name != "done" || planned[0].Why != "metadata.annotations" {
			t.Errorf("planned %+v, want the change of the annotations, too", planned)
		}
		if n := e.cloud.count("ensure") + e.cloud.count("update"); n != 0 {
			t.Errorf("%d calls that change something", n)
		}
	})
}
