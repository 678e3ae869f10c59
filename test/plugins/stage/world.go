package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/localcluster"
)

// The ServiceAccount of both managers; each has a control plane of its own.
const (
	accountNamespace = "kube-system"
	account          = "cloud-controller-manager"
)

// World is a control plane, a cloud and one manager between them.
type World[C Cloud] struct {
	*Cluster
	// Cloud is the stand-in of the cloud.
	Cloud C

	name, binary string
	story        Story[C]
	launch       Launch
	flags        []string
	dir          string
	control      *localcluster.Cluster
	manager      *program
	identities   identities
	seen         int // how many calls of the cloud belong to earlier steps
}

func newWorld[C Cloud](t testing.TB, story Story[C], name, binary string) *World[C] {
	t.Helper()
	// Not the test's own temporary directory: that one is removed although the test failed.
	dir, err := os.MkdirTemp("", "mooring-stage-"+name+"-")
	if err != nil {
		t.Fatal(err)
	}
	cloud, launch := story.Open(t)
	return &World[C]{
		Cloud: cloud, name: name, binary: binary, story: story, launch: launch, dir: dir,
		flags: append([]string{
			"--cloud-provider=" + story.Provider, "--node-status-update-frequency=" + Refresh.String(),
		}, story.Flags...),
	}
}

// open starts the control plane and the manager.
func (w *World[C]) open(ctx context.Context, binaries localcluster.Binaries) (err error) {
	// The control plane lives until close, and not only until it is prepared.
	w.control, err = localcluster.Start(context.WithoutCancel(ctx), localcluster.Options{
		Binaries: binaries, Dir: filepath.Join(w.dir, "control-plane"),
	})
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(w.control.AdminConfig())
	if err != nil {
		return err
	}
	w.Cluster = &Cluster{Client: client, config: w.control.AdminConfig()}
	rights := deploy.RBAC
	if w.binary == w.story.Reference {
		rights = referenceRights
	}
	for _, manifest := range [][]byte{rights, w.story.Rights} {
		if err := w.control.Apply(ctx, manifest); err != nil {
			return err
		}
	}
	return w.startManager(ctx)
}

func (w *World[C]) startManager(ctx context.Context) error {
	kubeconfig, err := w.control.ServiceAccountKubeconfig(ctx, accountNamespace, account)
	if err != nil {
		return err
	}
	config := filepath.Join(w.dir, "cloud.conf")
	if err := os.WriteFile(config, []byte(w.launch.Config), 0o600); err != nil {
		return fmt.Errorf("write the cloud config: %w", err)
	}
	w.manager, err = startProgram(w.dir, w.name, w.binary, w.launch.Env, append([]string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--cloud-config=" + config, "--bind-address=127.0.0.1", "--cert-dir=" + filepath.Join(w.dir, "serving"),
	}, w.flags...))
	return err
}

// await polls a condition until it returns nil, there is a problem, or the context ends.
func (w *World[C]) await(ctx context.Context, condition func(context.Context, *World[C]) error) error {
	if condition == nil {
		return nil
	}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := condition(ctx, w)
		if err == nil {
			return nil
		}
		if problem := w.problem(ctx); problem != nil {
			return problem
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// problem returns an error if nothing that comes can prove anything: the manager has ended, or the stand-in is at its end.
func (w *World[C]) problem(ctx context.Context) error {
	if err := w.manager.ended(); err != nil {
		return err
	}
	cloud, err := w.Cloud.Observe(ctx)
	if err == nil && len(cloud.Problems) > 0 {
		err = fmt.Errorf("the cloud's stand-in cannot do what it is asked for:\n%s", strings.Join(cloud.Problems, "\n"))
	}
	return err
}

// observe looks at everything once.
func (w *World[C]) observe(ctx context.Context) (snapshot, error) {
	if err := w.problem(ctx); err != nil {
		return snapshot{}, err
	}
	kubernetes, err := w.objects(ctx)
	if err != nil {
		return snapshot{}, err
	}
	cloud, err := w.Cloud.Observe(ctx)
	if err != nil {
		return snapshot{}, fmt.Errorf("observe the cloud: %w", err)
	}
	for _, node := range kubernetes.nodes {
		w.identities.add("node", node.ObjectMeta)
	}
	for _, service := range kubernetes.services {
		w.identities.add("service", service.ObjectMeta)
	}
	calls := cloud.Calls[w.seen:]
	replacer := w.identities.replacer()
	return snapshot{calls: calls, facts: factsOf(kubernetes, cloud, calls).normalized(func(text string) string {
		if text = replacer.Replace(text); w.story.Normalize != nil {
			text = w.story.Normalize(text)
		}
		return text
	}).ordered(!w.story.Parallel)}, nil
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
func (w *World[C]) close(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if w.manager != nil {
		w.manager.stop(ctx)
	}
	if w.control != nil {
		if err := w.control.Stop(ctx); err != nil {
			t.Error(err)
		}
	}
	if t.Failed() {
		t.Logf("logs of the world of the %s manager are kept in %s", w.name, w.dir)
		return
	}
	if err := os.RemoveAll(w.dir); err != nil {
		t.Error(err)
	}
}
