package ccm_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/poll"
	processes "github.com/mooring-ccm/mooring/dev/program"
)

// The controllers that the test program brings. None of them runs unless --controllers names it.
const (
	beating = "beating-controller"
	broken  = "broken-controller"
	failing = "failing-controller"
	needy   = "needy-controller"
	writing = "writing-controller"
	acting  = "acting-controller"
	stuck   = "stuck-controller"
	endless = "endless-controller"
)

// beat is what the beating controller writes again and again while it runs.
const beat = "beat"

// testControllers returns the options of the test program.
func testControllers() []ccm.Option {
	var path string
	inCallLog := func(name string, run func(context.Context, callLog, ccm.Environment) error) func(context.Context, ccm.Environment) (manager.Runnable, error) {
		return func(_ context.Context, environment ccm.Environment) (manager.Runnable, error) {
			written := callLog(path)
			written.write("%s built", name)
			return manager.RunnableFunc(func(ctx context.Context) error {
				written.write("%s started", name)
				defer written.write("%s stopped", name)
				return run(ctx, written, environment)
			}), nil
		}
	}
	return []ccm.Option{
		ccm.WithController(ccm.Controller{
			Name: beating, Aliases: []string{"beating"}, ClientName: "node-controller", DisabledByDefault: true,
			AddFlags: func(flags *pflag.FlagSet) { flags.StringVar(&path, "callLog", "", "File that controllers write to.") },
			New:      inCallLog(beating, beatUntilDone),
		}),
		ccm.WithController(ccm.Controller{
			Name: broken, DisabledByDefault: true,
			New: func(context.Context, ccm.Environment) (manager.Runnable, error) {
				return nil, errors.New("the moon is in the wrong house")
			},
		}),
		ccm.WithController(ccm.Controller{
			Name: failing, DisabledByDefault: true,
			New: inCallLog(failing, func(context.Context, callLog, ccm.Environment) error { return errors.New("lost its way") }),
		}),
		ccm.WithController(ccm.Controller{
			Name: needy, DisabledByDefault: true,
			Grants: []ccm.Grant{
				{Resource: "secrets", Verbs: []string{"list", "watch"}},
				{Group: "apps", Resource: "deployments/scale", Namespace: "kube-system", Name: "coredns", Verbs: []string{"update"}},
				{Resource: "nodes", Verbs: []string{"list", "deletecollection"}},
			},
			New: inCallLog(needy, func(context.Context, callLog, ccm.Environment) error { return nil }),
		}),
		ccm.WithController(ccm.Controller{
			Name: writing, ClientName: "node-controller", DisabledByDefault: true,
			Grants: []ccm.Grant{{Resource: "nodes", Verbs: []string{"get", "list", "watch", "patch"}}},
			New:    inCallLog(writing, annotateNode),
		}),
		ccm.WithController(ccm.Controller{
			Name: acting, ClientName: "node-controller", DisabledByDefault: true,
			Grants: []ccm.Grant{{Resource: "nodes", Verbs: []string{"patch"}}},
			New:    inCallLog(acting, actUntilDone),
		}),
		ccm.WithController(ccm.Controller{Name: stuck, DisabledByDefault: true, New: inCallLog(stuck, writeForEver)}),
		ccm.WithController(ccm.Controller{
			Name: endless, DisabledByDefault: true,
			New: inCallLog(endless, func(context.Context, callLog, ccm.Environment) error { select {} }),
		}),
	}
}

// beatUntilDone writes a beat every few milliseconds, and takes a while to stop.
func beatUntilDone(ctx context.Context, written callLog, _ ccm.Environment) error {
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	last := 50
	for last > 0 {
		<-ticker.C
		written.write(beat)
		if ctx.Err() != nil {
			last--
		}
	}
	return nil
}

// annotateNode writes to a node through the cache and the controller's identity, and then does nothing more.
func annotateNode(ctx context.Context, written callLog, environment ccm.Environment) error {
	var node corev1.Node
	if err := environment.Client.Get(ctx, client.ObjectKey{Name: "written"}, &node); err != nil {
		return err
	}
	written.write("managed fields of the cached node: %d", len(node.ManagedFields))
	patch := client.MergeFrom(node.DeepCopy())
	node.Annotations = map[string]string{"test.mooring.dev/written": "yes"}
	if err := environment.Client.Patch(ctx, &node, patch); err != nil {
		return err
	}
	environment.Recorder.Event(&node, corev1.EventTypeNormal, "Written", "an annotation")
	written.write("node written")
	<-ctx.Done()
	return nil
}

// leaseHolder returns who holds the Lease, as the plugin sees it: "held" or "free".
func leaseHolder(clients cloudprovider.ControllerClientBuilder) string {
	client, err := clients.Client("callLog")
	if err != nil {
		return err.Error()
	}
	lease, err := client.CoordinationV1().Leases("kube-system").Get(context.Background(), "cloud-controller-manager", metav1.GetOptions{})
	switch {
	case err != nil:
		return err.Error()
	case ptr.Deref(lease.Spec.HolderIdentity, "") == "":
		return "free"
	default:
		return "held"
	}
}

// program is a running process of the test program.
type program struct{ *processes.Program }

// start runs the test program.
func start(t *testing.T, args ...string) program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return run(t, self, args...)
}

// run runs a program. It is killed when the test ends, and its output is shown if the test failed.
func run(t *testing.T, path string, args ...string) program {
	t.Helper()
	return program{localclustertest.StartProgram(t, processes.Options{
		Name: "program", Path: path, Args: args, Env: []string{processes.SelfEnv + "=1"},
	})}
}

// signal sends a signal to the process.
func (p program) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := p.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// wait waits for the end of the process and returns its exit code.
func (p program) wait(t *testing.T) int {
	t.Helper()
	return localclustertest.AwaitEnd(t, p.Program)
}

// errorLines returns what the process said as its error: the line that begins with "error: " and all after it.
func (p program) errorLines() string {
	_, after, found := strings.Cut("\n"+p.Output(), "\nerror: ")
	if !found {
		return ""
	}
	return strings.TrimSuffix(after, "\n")
}

// errorLine returns the first line of that. Others may follow it that are no part of it: goroutines that are being ended log too.
func (p program) errorLine() string {
	line, _, _ := strings.Cut(p.errorLines(), "\n")
	return line
}

// awaitOutput waits until the process has said something.
func (p program) awaitOutput(t *testing.T, want string) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("the program says %q", want), func(context.Context) error {
		if !strings.Contains(p.Output(), want) {
			return errors.New("it has not")
		}
		return nil
	})
}
