package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/netlab"
)

// metalSections are the steps with machines without a cloud.
func metalSections(r *rack) []section {
	return []section{
		metalPrograms(),
		r.build(),
		r.controlPlane(),
		replicas(),
		r.join(),
		r.routes(),
		r.services(),
		r.upgrade(),
		r.death(),
		r.failover(),
		r.inventory(),
		r.wake(),
	}
}

// newRack returns a rack to be built, with what of this machine's programs it is built of.
func newRack(kind netlab.Kind) (*rack, error) {
	found, proxyMode, err := netlab.Check(kind)
	local, cluster := exposedServices()
	return &rack{kind: found, proxyMode: proxyMode, replicas: map[string]*netlab.Host{}, local: local, cluster: cluster}, err
}

func metalPrograms() section {
	return section{name: "prepare", title: "Programs", steps: []step{
		{
			name: "control-plane", title: "etcd, kube-apiserver, kube-controller-manager and kube-proxy are built", deadline: buildDeadline,
			run: buildAll,
		},
		{name: "daemon", title: "the daemon cloud-controller-manager is built", deadline: buildDeadline, run: findDaemon},
	}}
}

func buildAll(ctx context.Context, s *environment) (detail string, err error) {
	s.binaries, err = localcluster.Build(ctx, localcluster.BuildOptions{Parts: localcluster.Parts(), Progress: s.progress()})
	return "Kubernetes " + s.binaries.Version(), err
}

func (r *rack) controlPlane() section {
	return section{name: "control-plane", title: "Control plane", steps: []step{
		{
			name: "start", title: "etcd, kube-apiserver and kube-controller-manager run on the machines' network", deadline: stepDeadline,
			run: func(ctx context.Context, s *environment) (string, error) {
				return s.startCluster(ctx, rackCIDRs, control4.Addr())
			},
		},
		{
			name: "rights", title: "the manager has a ServiceAccount with the shipped rights, and no others", deadline: stepDeadline,
			run: r.grantRights,
		},
	}}
}

// metalRights are what the chart adds to the manager's when the provider is metal.
const metalRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "mooring:metal"}
rules:
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get, list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: "mooring:metal-node-groups", namespace: kube-system}
rules:
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [mooring-metal-node-groups]
  verbs: [get, update]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: "mooring:metal-node-groups", namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: "mooring:metal-node-groups"}
subjects: [{kind: ServiceAccount, name: cloud-controller-manager, namespace: kube-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "mooring:metal"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "mooring:metal"}
subjects: [{kind: ServiceAccount, name: cloud-controller-manager, namespace: kube-system}]
`

func (r *rack) grantRights(ctx context.Context, s *environment) (string, error) {
	if err := s.cluster.Apply(ctx, []byte(metalRights)); err != nil {
		return "", err
	}
	if err := errors.Join(r.writeConfig(s, r.machines), r.writeCertificates(s)); err != nil {
		return "", err
	}
	return grantRights(ctx, s)
}

// join has a node registered on every machine.
func (r *rack) join() section {
	return section{name: "join", title: "Nodes join", steps: []step{
		{
			name: "register", title: fmt.Sprintf("%d nodes register with the taint, as kubelets do, and run kube-proxy", machineCount),
			deadline: stepDeadline, run: r.register,
		},
		{
			name: "initialize", title: "every node has what the inventory says of its machine, and no taint", deadline: stepDeadline,
			run: r.awaitInitialized,
		},
		{name: "ready", title: "every node is ready and schedulable", deadline: stepDeadline, run: awaitAllReady},
	}}
}

func (r *rack) register(ctx context.Context, s *environment) (string, error) {
	for _, m := range r.machines {
		if err := s.registerNode(ctx, m.name, m.v4, m.v6); err != nil {
			return "", err
		}
		if err := r.startProxy(s, m); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d nodes; kube-proxy in mode %s", len(r.machines), r.proxyMode), nil
}

// kubeProxyConfig leaves the limits of connection tracking, which are those of the whole machine, as they are.
const kubeProxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: %[1]s
hostnameOverride: %[2]s
clientConnection: {kubeconfig: %[3]q}
clusterCIDR: %[4]q
healthzBindAddress: "[::]:10256"
metricsBindAddress: "127.0.0.1:10249"
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
nftables: {minSyncPeriod: 100ms}
iptables: {minSyncPeriod: 100ms}
`

func (r *rack) startProxy(s *environment, m *machine) (err error) {
	kubeconfig, err := s.cluster.UserKubeconfig("system:kube-proxy")
	if err != nil {
		return err
	}
	config := s.path("kube-proxy-" + m.name + ".yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, kubeProxyConfig, r.proxyMode, m.name, kubeconfig, rackCIDRs), 0o600); err != nil {
		return err
	}
	m.proxy, err = s.startProcess("kube-proxy of", m.name, append(m.host.Args(), s.binaries.Program("kube-proxy"), "--config="+config)...)
	return err
}

func (r *rack) awaitInitialized(ctx context.Context, s *environment) (string, error) {
	err := s.observed.await(ctx, func(v view) error {
		return eachOf(r.machines, func(m *machine) error { return asTheInventorySays(v.nodes[m.name], m) })
	})
	if err != nil {
		return "", errors.Join(err, s.warning(r.machines[0].name))
	}
	return fmt.Sprintf("for example %s, with %s and %s", "metal://"+r.machines[0].id, r.machines[0].v4, r.machines[0].v6), nil
}

// asTheInventorySays returns in what a node differs from its machine.
func asTheInventorySays(node *corev1.Node, m *machine) error {
	switch {
	case node == nil:
		return fmt.Errorf("%s, which is not registered", m.name)
	case stateOf(node).Tainted:
		return fmt.Errorf("%s, which has the taint", m.name)
	}
	addresses := map[string]bool{}
	for _, address := range node.Status.Addresses {
		addresses[address.Address] = true
	}
	state := stateOf(node)
	if state.ProviderID != "metal://"+m.id || !strings.HasPrefix(state.Zone, "rack-") || state.Type != "r640" ||
		!addresses[m.v4.String()] || !addresses[m.v6.String()] {
		return fmt.Errorf("%s, which has the provider ID %q, the labels %v and the addresses %v",
			m.name, state.ProviderID, node.Labels, slices.Sorted(maps.Keys(addresses)))
	}
	return nil
}

// routes has the router know the way to pods.
func (r *rack) routes() section {
	return section{name: "routes", title: "Pod routes", steps: []step{
		{
			name: "learned", title: "the router knows the way to the pods of every node, over IPv4 and IPv6", deadline: stepDeadline,
			run: r.awaitPodRoutes,
		},
	}}
}

func (r *rack) awaitPodRoutes(ctx context.Context, s *environment) (string, error) {
	nodes := map[string]*corev1.Node{}
	err := s.observed.await(ctx, func(v view) error {
		nodes = maps.Clone(v.nodes)
		return eachOf(r.machines, func(m *machine) error {
			if node := v.nodes[m.name]; node != nil {
				return networkAvailable(node)
			}
			return fmt.Errorf("%s, which is not registered", m.name)
		})
	})
	if err != nil {
		return "", err
	}
	err = r.awaitTable(ctx, func(table netlab.Table) error {
		return eachOf(r.machines, func(m *machine) error { return m.routed(table, nodes[m.name].Spec.PodCIDRs) })
	})
	if err != nil {
		return "", err
	}
	first := r.machines[0]
	return fmt.Sprintf("%d routes, for example to %s by way of %s", 2*len(r.machines), nodes[first.name].Spec.PodCIDRs[0], first.v4), nil
}

// awaitTable waits until the router's table is as wanted.
func (r *rack) awaitTable(ctx context.Context, lacks func(netlab.Table) error) error {
	return awaitCloud(ctx, func() error {
		table, err := r.router.Table(ctx)
		if err != nil {
			return err
		}
		return lacks(table)
	})
}

// address is the machine's of the family of a destination.
func (m *machine) address(to netip.Prefix) netip.Addr {
	if to.Addr().Is4() {
		return m.v4
	}
	return m.v6
}

// routed returns an error unless the machine is the way to these CIDRs.
func (m *machine) routed(table netlab.Table, cidrs []string) error {
	for _, text := range cidrs {
		cidr, err := netip.ParsePrefix(text)
		if err != nil {
			return err
		}
		if got := table[cidr]; !slices.Equal(got, []netip.Addr{m.address(cidr)}) {
			return fmt.Errorf("%s on %s, which the router sends to %v", cidr, m.name, got)
		}
	}
	return nil
}
