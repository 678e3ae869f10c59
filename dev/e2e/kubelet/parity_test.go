package kubelet_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/nodeagent"
)

// agentPrefix makes the name of an agent's node from the name of a kubelet's node.
const agentPrefix = "agent-"

// agentsAgree registers a light agent beside each kubelet, with the same options, and compares what a cloud controller
// manager sees of both. All other tests with nodes rest on this.
func (l *fixture) agentsAgree(t *testing.T) {
	for _, m := range machines() {
		name := agentPrefix + m.name
		config, err := l.cluster.UserConfig("system:node:"+name, "system:nodes")
		if err != nil {
			t.Fatal(err)
		}
		agent, err := nodeagent.New(config, nodeagent.Options{Name: name, NodeIPs: m.nodeIPs})
		if err != nil {
			t.Fatal(err)
		}
		if err := agent.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		ofKubelet := l.waitFor(t, m, "is settled", settled)
		ofAgent := l.waitFor(t, machine{name: name}, "is settled", settled)
		if diff := cmp.Diff(appearanceOf(ofKubelet), appearanceOf(ofAgent)); diff != "" {
			t.Errorf("node of the kubelet (-) and of the agent (+) for machine %s:\n%s", m.name, diff)
		}
		// The cloud knows no such instance.
		if err := l.client.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// ttlAnnotation is written by kube-controller-manager.
const ttlAnnotation = "node.alpha.kubernetes.io/ttl"

// settled waits for what kube-controller-manager does to every node.
func settled(node *corev1.Node) error {
	if len(node.Spec.Taints) == 1 && node.Annotations[ttlAnnotation] != "" {
		return ready(node)
	}
	return fmt.Errorf("taints %v, annotations %v", node.Spec.Taints, node.Annotations)
}

// appearance is what a cloud controller manager, kube-controller-manager and people see of a node.
type appearance struct {
	Labels, Annotations map[string]string
	Taints              []corev1.Taint
	Addresses           []corev1.NodeAddress
	Conditions          []corev1.NodeCondition
	Resources           []corev1.ResourceName
	KubeletPort         int32
	KubeletVersion      string
	ProviderID          string
}

// appearanceOf leaves out what is particular to one machine: its name, times and sizes.
func appearanceOf(node *corev1.Node) appearance {
	seen := appearance{
		Labels: maps.Clone(node.Labels), Annotations: maps.Clone(node.Annotations), Taints: node.Spec.Taints,
		KubeletPort:    node.Status.DaemonEndpoints.KubeletEndpoint.Port,
		KubeletVersion: node.Status.NodeInfo.KubeletVersion,
		ProviderID:     node.Spec.ProviderID,
	}
	seen.Labels[corev1.LabelHostname] = strings.TrimPrefix(seen.Labels[corev1.LabelHostname], agentPrefix)
	for _, address := range node.Status.Addresses {
		address.Address = strings.TrimPrefix(address.Address, agentPrefix)
		seen.Addresses = append(seen.Addresses, address)
	}
	for _, condition := range node.Status.Conditions {
		condition.LastHeartbeatTime, condition.LastTransitionTime = metav1.Time{}, metav1.Time{}
		seen.Conditions = append(seen.Conditions, condition)
	}
	for _, resource := range slices.Sorted(maps.Keys(node.Status.Capacity)) {
		// Which huge pages there are depends on the processor.
		if !strings.HasPrefix(string(resource), corev1.ResourceHugePagesPrefix) {
			seen.Resources = append(seen.Resources, resource)
		}
	}
	return seen
}
