package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/internal/tool/words"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// joinInterval lets people see one node after the other.
const joinInterval = 300 * time.Millisecond

// warningTimeout is how long it may take to ask for the reason of a failure.
const warningTimeout = 5 * time.Second

// join has a node registered on every instance.
func join() section {
	return section{name: "join", title: "Nodes join", steps: []step{
		{
			name: "register", title: fmt.Sprintf("%d nodes register with the taint, as kubelets do", instanceCount),
			deadline: stepDeadline, run: registerNodes,
		},
		{name: "initialize", title: "every node has what the cloud says of its instance, and no taint", deadline: stepDeadline, run: awaitInitialized},
		{name: "ready", title: "every node is ready and schedulable", deadline: stepDeadline, run: awaitReady},
	}}
}

func registerNodes(ctx context.Context, s *environment) (string, error) {
	instances := s.cloud.Instances()
	ticker := time.NewTicker(joinInterval)
	defer ticker.Stop()
	for _, instance := range instances {
		if err := s.joinNode(ctx, instance); err != nil {
			return "", err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	return fmt.Sprintf("%s, one every %s", words.Count(len(instances), "node", "nodes"), joinInterval), nil
}

// joinNode registers a node on an instance.
func (s *environment) joinNode(ctx context.Context, instance api.Instance) error {
	var ips []netip.Addr
	for _, address := range instance.Addresses {
		if address.Type == api.AddressInternalIP {
			ip, err := netip.ParseAddr(address.Address)
			if err != nil {
				return fmt.Errorf("instance %s: %w", instance.ID, err)
			}
			ips = append(ips, ip)
		}
	}
	return s.registerNode(ctx, instance.Name, ips...)
}

// registerNode registers a node with the rights of its kubelet, and keeps it alive until the demo ends.
func (s *environment) registerNode(ctx context.Context, name string, ips ...netip.Addr) error {
	identity, err := s.cluster.UserConfig("system:node:"+name, "system:nodes")
	if err != nil {
		return err
	}
	agent, err := nodeagent.New(identity, nodeagent.Options{Name: name, NodeIPs: ips, LeaseDuration: leaseDuration, StatusPeriod: time.Second})
	if err != nil {
		return err
	}
	if err := agent.Register(ctx); err != nil {
		return err
	}
	s.agents.Store(name, agent)
	s.beside("node "+name, agent.Run)
	return nil
}

func awaitInitialized(ctx context.Context, s *environment) (string, error) {
	instances := s.cloud.Instances()
	err := s.observed.await(ctx, func(v view) error {
		return eachOf(instances, func(instance api.Instance) error { return asTheCloudSays(v.nodes[instance.Name], instance) })
	})
	if err != nil {
		return "", errors.Join(err, s.warning(instances[0].Name))
	}
	return words.Count(len(instances), "node has", "nodes have") + " provider ID, addresses, zone, region and type", nil
}

// eachOf returns how many values lack something, and what the first one lacks.
func eachOf[T any](values []T, missing func(T) error) error {
	var first error
	count := 0
	for _, value := range values {
		if err := missing(value); err != nil {
			first = cmp.Or(first, err)
			count++
		}
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("%d of %d are not there yet, for example %w", count, len(values), first)
}

// warning is what the manager has reported by an event about a node that it cannot initialize, or nil if there is no such event.
func (s *environment) warning(node string) error {
	ctx, cancel := context.WithTimeout(s.life, warningTimeout)
	defer cancel()
	events, err := s.kubernetes.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.SelectorFromSet(fields.Set{
			"involvedObject.kind": "Node", "involvedObject.name": node, "type": corev1.EventTypeWarning,
		}).String(),
	})
	if err != nil || len(events.Items) == 0 {
		return err
	}
	event := events.Items[len(events.Items)-1]
	return fmt.Errorf("the event on %s says: %s: %s", node, event.Reason, event.Message)
}

// asTheCloudSays returns in what a node differs from its instance.
func asTheCloudSays(node *corev1.Node, instance api.Instance) error {
	if node == nil {
		return fmt.Errorf("%s, which is not registered", instance.Name)
	}
	if stateOf(node).Tainted {
		return fmt.Errorf("%s, which has the taint", node.Name)
	}
	var differences []string
	compare := func(what, got, want string) {
		if got != want {
			differences = append(differences, fmt.Sprintf("%s %q instead of %q", what, got, want))
		}
	}
	compare("the provider ID", node.Spec.ProviderID, sim.ProviderID(instance.ID))
	for label, want := range map[string]string{
		corev1.LabelTopologyZone: instance.Zone, corev1.LabelTopologyRegion: instance.Region, corev1.LabelInstanceTypeStable: instance.MachineType,
		corev1.LabelFailureDomainBetaZone: instance.Zone, corev1.LabelFailureDomainBetaRegion: instance.Region,
		corev1.LabelInstanceType: instance.MachineType,
	} {
		compare("the label "+label, node.Labels[label], want)
	}
	for _, address := range instance.Addresses {
		compare("the "+string(address.Type), addressOf(node, corev1.NodeAddressType(address.Type)), address.Address)
	}
	if len(differences) == 0 {
		return nil
	}
	return fmt.Errorf("%s, which has %s", node.Name, strings.Join(differences, ", "))
}

func awaitReady(ctx context.Context, s *environment) (string, error) {
	err := s.observed.await(ctx, func(v view) error {
		return eachOf(slices.Sorted(maps.Keys(v.nodes)), func(name string) error {
			if state := stateOf(v.nodes[name]); !state.Ready || !state.Schedulable {
				return fmt.Errorf("%s, ready: %v, taints: %v", name, state.Ready, v.nodes[name].Spec.Taints)
			}
			return nil
		})
	})
	if err != nil {
		return "", err
	}
	counts := s.cloud.Counts()
	return fmt.Sprintf("so far the cloud was asked for %s of all instances and %s for a single one",
		words.Count(counts.Received(api.OpListInstances), "list", "lists"),
		words.Count(counts.Received(api.OpGetInstance, api.OpGetInstanceByName), "time", "times")), nil
}

// awaitAllReady waits until every node is ready.
func awaitAllReady(ctx context.Context, s *environment) (string, error) {
	return "", s.observed.await(ctx, func(v view) error {
		return eachOf(slices.Sorted(maps.Keys(v.nodes)), func(name string) error { return wantsReady(v.nodes[name]) })
	})
}
