package route_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/localcluster"
	"github.com/mooring-ccm/mooring/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/localcluster/nodeagent"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
	"github.com/mooring-ccm/mooring/test/integration/harness"
)

const dualStack = "10.244.0.0/16,fd00:10:244::/56"

// program is a cloud controller manager with the given arguments, in a process of its own: what it sets up for logging belongs
// to the whole process.
func program(t *testing.T, cloud *simtest.Cloud, kubeconfig string, arguments ...string) (command *exec.Cmd, output *bytes.Buffer) {
	t.Helper()
	command = exec.CommandContext(t.Context(), os.Args[0], append(arguments, "--secure-port=0", "--leader-elect=false",
		"--cloud-provider=sim", "--cloud-config="+cloud.ConfigFile, "--kubeconfig="+kubeconfig)...)
	command.Env = append(os.Environ(), asProgram+"=true")
	output = &bytes.Buffer{}
	command.Stdout, command.Stderr = output, output
	return command, output
}

// running starts a program. The returned function ends it, which has to go well.
func running(t *testing.T, cloud *simtest.Cloud, kubeconfig string, arguments ...string) (stop func()) {
	t.Helper()
	command, output := program(t, cloud, kubeconfig, arguments...)
	must(t, command.Start())
	return func() {
		t.Helper()
		must(t, command.Process.Signal(syscall.SIGTERM))
		if err := command.Wait(); err != nil {
			t.Errorf("the program ended with %v; it said\n%s", err, output)
		}
	}
}

// The whole way: kubelets register, the node controller initializes them, kube-controller-manager gives them pod CIDRs of both
// families, and the route controller makes their routes. A program that is not to leaves routes and conditions alone.
func TestTheProgramMakesRoutesForNodesThatJoin(t *testing.T) {
	plane := localclustertest.Start(t, localclustertest.WithControllerManager, func(o *localcluster.Options) {
		o.ControllerManagerArgs = []string{"--allocate-node-cidrs=true", "--cluster-cidr=" + dualStack}
	})
	must(t, plane.Apply(t.Context(), deploy.RBAC))
	kubeconfig, err := plane.ServiceAccountKubeconfig(t.Context(), "kube-system", harness.Account)
	must(t, err)
	client, err := kubernetes.NewForConfig(plane.AdminConfig())
	must(t, err)
	cloud := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})
	_, err = nodeagent.RegisterMany(t.Context(), plane.AdminConfig(), []nodeagent.Options{
		{Name: "node-001"}, {Name: "node-002"}, {Name: "node-003"},
	}, 3)
	must(t, err)

	stop := running(t, cloud, kubeconfig, "--cluster-cidr="+dualStack, "--configure-cloud-routes=false")
	conditions := func(ctx context.Context) (lines []string, err error) {
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, node := range list.Items {
			line := fmt.Sprintf("%d pod CIDRs, initialized %t", len(node.Spec.PodCIDRs), node.Spec.ProviderID != "")
			for _, c := range node.Status.Conditions {
				if c.Type == "NetworkUnavailable" {
					line += ", " + string(c.Status) + " " + c.Reason
				}
			}
			lines = append(lines, line)
		}
		return lines, nil
	}
	await := func(want string) {
		t.Helper()
		eventually(t, "three nodes with "+want, func(ctx context.Context) error {
			got, err := conditions(ctx)
			if err == nil && !slices.Equal(got, []string{want, want, want}) {
				err = fmt.Errorf("they have %q", got)
			}
			return err
		})
	}
	await("2 pod CIDRs, initialized true")
	stop()
	if got := table(t, cloud, ""); len(got) != 0 {
		t.Errorf("routes of a program that is to make none: %q", got)
	}

	stop = running(t, cloud, kubeconfig, "--cluster-cidr="+dualStack)
	await("2 pod CIDRs, initialized true, " + routed)
	stop()
	got := table(t, cloud, simtest.ClusterName)
	if len(got) != 6 || strings.Count(strings.Join(got, "\n"), "fd00:10:244:") != 3 {
		t.Errorf("routes: %q, want three of each family", got)
	}
}

func TestTheProgramRefusesWhatCannotWork(t *testing.T) {
	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), "kube-system", harness.Account)
	must(t, err)
	cloud := simtest.Start(t, cloudsim.Options{})
	for name, test := range map[string]struct {
		arguments []string
		want      []string
	}{
		"the controller without a range": {
			[]string{"--controllers=route"},
			[]string{"--cluster-cidr: Required value: --controllers names node-route-controller, which needs it"},
		},
		"bounds that are none, both at once": {
			[]string{"--cluster-cidr=10.244.0.0/16", "--concurrent-route-syncs=0", "--route-reconciliation-max-period=-1s"},
			[]string{"--concurrent-route-syncs: Invalid value: 0: must be positive",
				`--route-reconciliation-max-period: Invalid value: "-1s": must not be negative`},
		},
		"a period that is none": {
			[]string{"--cluster-cidr=10.244.0.0/16", "--route-reconciliation-period=0"},
			[]string{`--route-reconciliation-period: Invalid value: "0s": must be positive`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			command, output := program(t, cloud, kubeconfig, test.arguments...)
			if err := command.Run(); command.ProcessState.ExitCode() != 1 {
				t.Fatalf("the program ended with %v, want exit code 1", err)
			}
			for _, want := range test.want {
				if !strings.Contains(output.String(), want) {
					t.Errorf("the program said\n%s\nwant it to say %q", output, want)
				}
			}
		})
	}
}
