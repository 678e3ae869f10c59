package compare

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
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/dev/program"
)

// Environment is a control plane, a cloud and one manager between them.
type Environment[C Cloud] struct {
	*Cluster
	// Cloud is the stand-in of the cloud.
	Cloud C

	name, binary string
	scenario     Scenario[C]
	launch       Launch
	flags        []string
	dir          string
	manager      *program.Program
	identities   identities
	seen         int // how many calls of the cloud belong to earlier steps
}

func newEnvironment[C Cloud](t testing.TB, scenario Scenario[C], name, binary string) *Environment[C] {
	t.Helper()
	// Not the test's own temporary directory: that one is removed although the test failed.
	dir, err := os.MkdirTemp("", "mooring-compare-"+name+"-")
	if err != nil {
		t.Fatal(err)
	}
	cloud, launch := scenario.Open(t)
	return &Environment[C]{
		Cloud: cloud, name: name, binary: binary, scenario: scenario, launch: launch, dir: dir,
		flags: append([]string{
			"--cloud-provider=" + scenario.Provider, "--node-status-update-frequency=" + Refresh.String(),
		}, scenario.Flags...),
	}
}

// open starts the control plane and the manager.
func (e *Environment[C]) open(ctx context.Context, binaries localcluster.Binaries) (err error) {
	identity := harness.Mooring
	if e.binary == e.scenario.Reference {
		identity = harness.Reference
	}
	control, err := harness.Open(ctx, localcluster.Options{
		Binaries: binaries, Dir: filepath.Join(e.dir, "control-plane"),
	}, identity.With(e.scenario.Rights))
	if err != nil {
		return err
	}
	e.Cluster = &Cluster{control}
	config := filepath.Join(e.dir, "cloud.conf")
	if err := os.WriteFile(config, []byte(e.launch.Config), 0o600); err != nil {
		return fmt.Errorf("write the cloud config: %w", err)
	}
	e.manager, err = harness.Manager{
		Name: e.name, Dir: e.dir, Path: e.binary, Identity: identity, CloudConfig: config, Flags: e.flags, Env: e.launch.Env,
	}.Start(ctx, control)
	return err
}

// await polls a condition until it returns nil, there is a problem, or the context ends.
func (e *Environment[C]) await(ctx context.Context, condition func(context.Context, *Environment[C]) error) error {
	if condition == nil {
		return nil
	}
	var unmet, problem error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if unmet = condition(ctx, e); unmet == nil {
			return true, nil
		}
		problem = e.problem(ctx)
		return false, problem
	})
	if err != nil && problem == nil {
		return errors.Join(unmet, context.Cause(ctx))
	}
	return err
}

// problem returns an error if nothing that comes can prove anything: the manager has ended, or the stand-in is at its end.
func (e *Environment[C]) problem(ctx context.Context) error {
	if err := e.manager.Exited(); err != nil {
		return err
	}
	cloud, err := e.Cloud.Observe(ctx)
	if err == nil && len(cloud.Problems) > 0 {
		err = fmt.Errorf("the cloud's stand-in cannot do what it is asked for:\n%s", strings.Join(cloud.Problems, "\n"))
	}
	return err
}

// observe looks at everything once.
func (e *Environment[C]) observe(ctx context.Context) (snapshot, error) {
	if err := e.problem(ctx); err != nil {
		return snapshot{}, err
	}
	kubernetes, err := e.objects(ctx)
	if err != nil {
		return snapshot{}, err
	}
	cloud, err := e.Cloud.Observe(ctx)
	if err != nil {
		return snapshot{}, fmt.Errorf("observe the cloud: %w", err)
	}
	for _, node := range kubernetes.nodes {
		e.identities.add("node", node.ObjectMeta)
	}
	for _, service := range kubernetes.services {
		e.identities.add("service", service.ObjectMeta)
	}
	calls := cloud.Calls[e.seen:]
	replacer := e.identities.replacer()
	return snapshot{calls: calls, facts: factsOf(kubernetes, cloud, calls).normalized(func(text string) string {
		if text = replacer.Replace(text); e.scenario.Normalize != nil {
			text = e.scenario.Normalize(text)
		}
		return text
	}).ordered(!e.scenario.Parallel)}, nil
}

// objects lists what Kubernetes has.
func (c *Cluster) objects(ctx context.Context) (objects, error) {
	nodes, nodesErr := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	services, servicesErr := c.Client.CoreV1().Services(corev1.NamespaceAll).List(ctx, metav1.ListOptions{})
	events, eventsErr := c.Client.CoreV1().Events(corev1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err := errors.Join(nodesErr, servicesErr, eventsErr); err != nil {
		return objects{}, err
	}
	return objects{nodes.Items, withoutAPIServer(services.Items), aboutNodesAndServices(events.Items)}, nil
}

// close ends everything. What it leaves of a failed test are its files, and their place in the log.
func (e *Environment[C]) close(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), poll.Deadline)
	defer cancel()
	if err := e.manager.Stop(ctx, harness.StopGrace); err != nil {
		t.Error(err)
	}
	if e.Cluster != nil {
		if err := e.Stop(ctx); err != nil {
			t.Error(err)
		}
	}
	if t.Failed() {
		t.Logf("logs of the %s manager and of its control plane are kept in %s", e.name, e.dir)
		return
	}
	if err := os.RemoveAll(e.dir); err != nil {
		t.Error(err)
	}
}
