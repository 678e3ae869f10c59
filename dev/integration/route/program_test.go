package route_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	managers "github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/harness/harnesstest"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/dev/program"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

const dualStack = "10.244.0.0/16,fd00:10:244::/56"

// running starts a cloud controller manager with the given arguments, in a process of its own: what it sets up for logging belongs to the
// whole process.
func running(t *testing.T, plane *managers.Cluster, cloud *simtest.Cloud, arguments ...string) *program.Program {
	t.Helper()
	return harnesstest.Start(t, plane, managers.Manager{
		Name: "program", Path: os.Args[0], Identity: managers.Mooring, CloudConfig: cloud.ConfigFile, Env: []string{program.SelfEnv + "=true"},
		Flags: append(arguments, "--secure-port=0", "--leader-elect=false", "--cloud-provider=sim"),
	})
}

// stop ends a program, which has to go well.
func stop(t *testing.T, running *program.Program) {
	t.Helper()
	must.NoError(t, running.Signal(syscall.SIGTERM))
	if code := localclustertest.AwaitEnd(t, running); code != 0 {
		t.Errorf("the program ended with %s", running.State())
	}
}

// The whole way: kubelets register, the node controller initializes them, kube-controller-manager gives them pod CIDRs of both
// families, and the route controller makes their routes. A program that is not to leaves routes and conditions alone.
func TestTheProgramMakesRoutesForNodesThatJoin(t *testing.T) {
	plane := harnesstest.Of(t, localclustertest.Start(t, localclustertest.WithControllerManager, func(o *localcluster.Options) {
		o.ControllerManagerArgs = []string{"--allocate-node-cidrs=true", "--cluster-cidr=" + dualStack}
	}), managers.Mooring)
	cloud := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})
	_, err := nodeagent.RegisterMany(t.Context(), plane.AdminConfig(), []nodeagent.Options{
		{Name: "node-001"}, {Name: "node-002"}, {Name: "node-003"},
	}, 3)
	must.NoError(t, err)

	first := running(t, plane, cloud, "--cluster-cidr="+dualStack, "--configure-cloud-routes=false")
	conditions := func(ctx context.Context) (lines []string, err error) {
		list, err := plane.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
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
		poll.Until(t, "three nodes with "+want, func(ctx context.Context) error {
			got, err := conditions(ctx)
			if err == nil && !slices.Equal(got, []string{want, want, want}) {
				err = fmt.Errorf("they have %q", got)
			}
			return err
		})
	}
	await("2 pod CIDRs, initialized true")
	stop(t, first)
	if got := table(t, cloud, ""); len(got) != 0 {
		t.Errorf("routes of a program that is to make none: %q", got)
	}

	second := running(t, plane, cloud, "--cluster-cidr="+dualStack)
	await("2 pod CIDRs, initialized true, " + routed)
	stop(t, second)
	got := table(t, cloud, simtest.ClusterName)
	if len(got) != 6 || strings.Count(strings.Join(got, "\n"), "fd00:10:244:") != 3 {
		t.Errorf("routes: %q, want three of each family", got)
	}
}

func TestTheProgramRefusesWhatCannotWork(t *testing.T) {
	cloud := simtest.Start(t, cloudsim.Options{})
	for name, test := range map[string]struct {
		arguments []string
		want      []string
	}{
		"the controller without a range": {
			[]string{"--controllers=route"},
			[]string{"--cluster-cidr: Required value: --controllers names node-route-controller, which needs it"},
		},
		"a bound that is none": {
			[]string{"--cluster-cidr=10.244.0.0/16", "--concurrent-route-syncs=0"},
			[]string{"--concurrent-route-syncs: Invalid value: 0: must be positive"},
		},
		"a period that is none": {
			[]string{"--cluster-cidr=10.244.0.0/16", "--route-reconciliation-period=0"},
			[]string{`--route-reconciliation-period: Invalid value: "0s": must be positive`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ended := running(t, harnesstest.Of(t, cluster), cloud, test.arguments...)
			if code := localclustertest.AwaitEnd(t, ended); code != 1 {
				t.Fatalf("the program ended with %s, want exit code 1", ended.State())
			}
			for _, want := range test.want {
				if !strings.Contains(ended.Output(), want) {
					t.Errorf("the program said\n%s\nwant it to say %q", ended.Output(), want)
				}
			}
		})
	}
}
