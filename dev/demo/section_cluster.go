package demo

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
)

// stepDeadline is generous: the demo also runs on machines that are busy with something else.
const stepDeadline = time.Minute

// controlPlane starts Kubernetes and gives the manager the rights that are shipped.
func controlPlane() section {
	return section{name: "control-plane", title: "Control plane", steps: []step{
		{name: "start", title: "etcd, kube-apiserver and kube-controller-manager run on loopback", deadline: stepDeadline, run: startControlPlane},
		{
			name: "rights", title: "the manager has a ServiceAccount with the shipped ClusterRole, and no other rights",
			deadline: stepDeadline, run: grantRights,
		},
	}}
}

func startControlPlane(ctx context.Context, s *environment) (string, error) {
	return s.startCluster(ctx, podCIDRs, netip.Addr{})
}

// startCluster starts a control plane that gives nodes pod CIDRs, and serves at an address, or at loopback if the address is invalid.
func (s *environment) startCluster(ctx context.Context, podCIDRs string, address netip.Addr) (detail string, err error) {
	cluster, err := startUntil(ctx, context.WithoutCancel(s.life), func(life context.Context) (*localcluster.Cluster, error) {
		return localcluster.Start(life, localcluster.Options{
			Binaries: s.binaries, Dir: s.path("cluster"), BindAddress: address, ControllerManager: true,
			NodeMonitorPeriod: time.Second, NodeMonitorGracePeriod: silence,
			ControllerManagerArgs: []string{"--allocate-node-cidrs=true", "--cluster-cidr=" + podCIDRs},
		})
	})
	if err != nil {
		return "", err
	}
	s.onEnd(cluster.Stop)
	if s.cluster, err = harness.Of(ctx, cluster); err != nil {
		return "", err
	}
	s.kubernetes = s.cluster.Client
	version, err := s.kubernetes.Discovery().ServerVersion()
	if err != nil {
		return "", err
	}
	s.observed = newObserver(s.report)
	stop, err := s.observed.start(s.life, s.kubernetes)
	if err != nil {
		return "", err
	}
	s.onEnd(stop)
	return fmt.Sprintf("kube-apiserver %s at %s", version.GitVersion, cluster.AdminConfig().Host), nil
}

// startUntil starts something that lives as long as life, and gives up when ctx ends before it has started. Here life does not end by itself. The
// process stops in its turn, after the processes that need it.
func startUntil[T any](ctx, life context.Context, start func(context.Context) (T, error)) (T, error) {
	life, giveUp := context.WithCancelCause(life)
	stop := context.AfterFunc(ctx, func() { giveUp(context.Cause(ctx)) })
	defer stop()
	return start(life)
}

func grantRights(ctx context.Context, s *environment) (detail string, err error) {
	if err := s.cluster.Grant(ctx, harness.Mooring); err != nil {
		return "", err
	}
	s.kubeconfig, err = s.cluster.Kubeconfig(ctx, harness.Mooring)
	return "ServiceAccount kube-system/" + daemonName, err
}
