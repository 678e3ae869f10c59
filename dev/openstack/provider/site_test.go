package provider

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/openstack"
	"github.com/mooring-ccm/mooring/dev/program"
)

// site is a cluster in the project, with a manager that has credentials of its own.
type site struct {
	project *project
	// name is --cluster-name, and driver octavia's.
	name, driver string
	cluster      *harness.Cluster
	credentials  openstack.Credentials
	config       string
	manager      *program.Program
	witness      *witness
	// members are the numbers of the servers that are nodes.
	members []int
}

// newSite starts a control plane and the daemon, with the rights that are shipped, and waits until it leads.
func (w *project) newSite(t *testing.T, name, driver string) *site {
	t.Helper()
	s := &site{project: w, name: name, driver: driver, config: filepath.Join(w.dir, name+".conf")}
	var err error
	s.cluster, err = harness.Of(t.Context(), localclustertest.Start(t), harness.Mooring)
	must.NoError(t, err)
	s.credentials, err = w.cloud.CreateApplicationCredential(t.Context(), w.tenant, name)
	must.NoError(t, err)
	s.configure(t)
	s.witness = watch(t, s.cluster.Client)
	flags := []string{
		"--cloud-provider=openstack", "--cluster-name=" + name, "--node-monitor-period=2s", "--node-deletion-min-age=2s",
		"--node-deletion-min-denial-time=2s",
	}
	if s.routed() {
		flags = append(flags, "--cluster-cidr=10.244.0.0/16")
	}
	s.manager, err = harness.Manager{
		Name: name, Dir: w.dir, Path: w.daemon, Identity: harness.Mooring, CloudConfig: s.config, Flags: flags,
	}.Start(t.Context(), s.cluster)
	must.NoError(t, err)
	t.Cleanup(func() { // before the control plane
		if err := s.manager.Stop(context.WithoutCancel(t.Context()), harness.StopGrace); err != nil {
			t.Errorf("stopping the manager of %s: %v", name, err)
		}
	})
	until(t, "the manager of "+name+" leads", func(ctx context.Context) error {
		return errors.Join(s.cluster.Led(ctx), s.manager.Exited())
	})
	return s
}

// routed reports whether the cluster has routes.
func (s *site) routed() bool { return s.driver == "ovn" }

// configure writes the cloud config, at once as an editor or a kubelet does.
func (s *site) configure(t *testing.T) {
	t.Helper()
	environment := s.project.environment
	sections := []string{
		"[Networking]", "internal-network-name=" + environment.NetworkName, "[LoadBalancer]", "lb-provider=" + s.driver,
		"subnet-id=" + environment.Subnet, "floating-network-id=" + environment.External,
	}
	if s.routed() {
		sections = append(sections, "[Route]", "router-id="+environment.Router)
	}
	must.NoError(t, os.WriteFile(s.config+".new", []byte(s.project.cloud.CloudConf(s.credentials, sections...)), 0o600))
	must.NoError(t, os.Rename(s.config+".new", s.config))
}

// alive reports whether the daemon that was started still runs: nothing may need a restart.
func (s *site) alive(t *testing.T) bool {
	t.Helper()
	err := s.manager.Exited()
	if err != nil {
		t.Errorf("the manager of %s has ended: %v", s.name, err)
	}
	return err == nil
}

// register has a server join, as its kubelet does that runs with --cloud-provider=external.
func (s *site) register(t *testing.T, numbers ...int) {
	t.Helper()
	for _, number := range numbers {
		name := serverName(number)
		labels := map[string]string{front: fmt.Sprint(inFront(number))}
		_, err := s.cluster.Client.CoreV1().Nodes().Create(t.Context(), nodeagent.Node(nodeagent.Options{Name: name, Labels: labels}, func(node *corev1.Node) {
			node.Spec.PodCIDR, node.Spec.PodCIDRs = podCIDR(number), []string{podCIDR(number)}
		}), metav1.CreateOptions{})
		must.NoError(t, err)
	}
	s.members = append(s.members, numbers...)
}

// podCIDR is what kube-controller-manager gives a node.
func podCIDR(number int) string { return fmt.Sprintf("10.244.%d.0/24", number) }

// report has a node be ready or unknown, as its kubelet or kube-controller-manager says.
func (s *site) report(t *testing.T, number int, ready corev1.ConditionStatus) {
	t.Helper()
	must.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := s.cluster.Client.CoreV1().Nodes().Get(t.Context(), serverName(number), metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range node.Status.Conditions {
			if node.Status.Conditions[i].Type == corev1.NodeReady {
				node.Status.Conditions[i].Status = ready
			}
		}
		_, err = s.cluster.Client.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
		return err
	}))
}

// awaitEvent waits for a warning on a Service whose message has all the words.
func (s *site) awaitEvent(t *testing.T, service string, words ...string) {
	t.Helper()
	until(t, fmt.Sprintf("Service %s/%s has a warning with the words %q", s.name, service, words), func(ctx context.Context) error {
		list, err := s.cluster.Client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Service,involvedObject.name=" + service,
		})
		if err != nil {
			return err
		}
		var messages []string
		for _, event := range list.Items {
			if event.Type == corev1.EventTypeWarning && containsAll(event.Message, words) {
				return nil
			}
			messages = append(messages, event.Type+" "+event.Reason+": "+event.Message)
		}
		return fmt.Errorf("its events are %q", messages)
	})
}

func containsAll(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
