package nodeagent

import (
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

const (
	// betaOSLabel and betaArchLabel are deprecated since Kubernetes 1.14 and still set by kubelets.
	betaOSLabel   = "beta.kubernetes.io/os"
	betaArchLabel = "beta.kubernetes.io/arch"
	// attachAnnotation leaves attaching volumes to kube-controller-manager, a kubelet's default.
	attachAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"
	kubeletPort      = 10250
)

// registration is the Node object that a kubelet creates: with the taint that keeps pods away until a cloud controller
// manager has initialized the node, and not ready, because at that time its container runtime has not answered yet.
func registration(options Options, now time.Time) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: options.Name,
			Labels: map[string]string{
				corev1.LabelHostname:   options.Hostname,
				corev1.LabelOSStable:   runtime.GOOS,
				corev1.LabelArchStable: runtime.GOARCH,
				betaOSLabel:            runtime.GOOS,
				betaArchLabel:          runtime.GOARCH,
			},
			Annotations: map[string]string{attachAnnotation: "true"},
		},
		Spec: corev1.NodeSpec{
			ProviderID: options.ProviderID,
			Taints: append(slices.Clone(options.Taints), corev1.Taint{
				Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule,
			}),
		},
	}
	for key, value := range options.Labels {
		node.Labels[key] = value
	}
	return report(node, options, readyCondition(false), now)
}

// Node returns the node that an agent has registered, after its first report: it waits for its initialization, and is ready. It is for who
// creates it in one write, after changes of their own. What is wrong with the options is left to the API server.
func Node(options Options, changes ...func(*corev1.Node)) *corev1.Node {
	options, _ = options.complete()
	now := time.Now()
	node := report(registration(options, now), options, readyCondition(true), now)
	for _, change := range changes {
		change(node)
	}
	return node
}

// report returns the node with what a kubelet reports on it: everything in the status and the annotation with the node
// IPs. Addresses that are there stay, because they are the cloud's.
func report(current *corev1.Node, options Options, ready corev1.NodeCondition, now time.Time) *corev1.Node {
	node := current.DeepCopy()
	reportAddresses(node, options)
	node.Status.Capacity = options.Capacity.DeepCopy()
	node.Status.Allocatable = options.Capacity.DeepCopy()
	node.Status.NodeInfo = nodeInfo(options)
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = kubeletPort
	for _, condition := range append(pressureConditions(), ready) {
		setCondition(&node.Status, condition, now)
	}
	return node
}

// reportAddresses does what a kubelet does with --cloud-provider=external: it hints its node IPs in an annotation, and
// uses them itself only until the cloud's addresses are known.
func reportAddresses(node *corev1.Node, options Options) {
	if len(options.NodeIPs) == 0 {
		delete(node.Annotations, cloudproviderapi.AnnotationAlphaProvidedIPAddr)
	} else {
		if node.Annotations == nil {
			node.Annotations = map[string]string{}
		}
		node.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr] = joinAddrs(options.NodeIPs)
	}
	if len(node.Status.Addresses) > 0 {
		return
	}
	for _, addr := range options.NodeIPs {
		node.Status.Addresses = append(node.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: addr.Unmap().String()})
	}
	node.Status.Addresses = append(node.Status.Addresses,
		corev1.NodeAddress{Type: corev1.NodeHostName, Address: options.Hostname})
}

func joinAddrs(addrs []netip.Addr) string {
	texts := make([]string, 0, len(addrs))
	for _, addr := range addrs {
		texts = append(texts, addr.Unmap().String())
	}
	return strings.Join(texts, ",")
}

// nodeInfo identifies the machine: always the same for a name, different for two.
func nodeInfo(options Options) corev1.NodeSystemInfo {
	machine := uuid.NewSHA1(uuid.NameSpaceDNS, []byte(options.Name))
	return corev1.NodeSystemInfo{
		MachineID:               strings.ReplaceAll(machine.String(), "-", ""),
		SystemUUID:              machine.String(),
		BootID:                  uuid.NewSHA1(machine, []byte("boot")).String(),
		KernelVersion:           "none",
		OSImage:                 "node agent without containers",
		ContainerRuntimeVersion: "none://0.0.0",
		KubeletVersion:          options.KubeletVersion,
		OperatingSystem:         runtime.GOOS,
		Architecture:            runtime.GOARCH,
	}
}

// pressureConditions are those of a healthy node, in the order in which a kubelet writes them.
func pressureConditions() []corev1.NodeCondition {
	return []corev1.NodeCondition{
		{
			Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse,
			Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available",
		},
		{
			Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse,
			Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure",
		},
		{
			Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse,
			Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available",
		},
	}
}

func readyCondition(ready bool) corev1.NodeCondition {
	if ready {
		return corev1.NodeCondition{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue,
			Reason: "KubeletReady", Message: "kubelet is posting ready status",
		}
	}
	return corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionFalse,
		Reason: "KubeletNotReady", Message: "container runtime status check may not have completed yet",
	}
}

// setCondition sets a condition with a heartbeat of now. The transition time changes with the status only.
func setCondition(status *corev1.NodeStatus, condition corev1.NodeCondition, now time.Time) {
	condition.LastHeartbeatTime = metav1.NewTime(now)
	condition.LastTransitionTime = metav1.NewTime(now)
	for i := range status.Conditions {
		if status.Conditions[i].Type != condition.Type {
			continue
		}
		if status.Conditions[i].Status == condition.Status {
			condition.LastTransitionTime = status.Conditions[i].LastTransitionTime
		}
		status.Conditions[i] = condition
		return
	}
	status.Conditions = append(status.Conditions, condition)
}

// differs reports whether two reports differ in more than their heartbeats.
func differs(before, after *corev1.Node) bool {
	return !semanticallyEqual(withoutHeartbeats(before), withoutHeartbeats(after))
}

func withoutHeartbeats(node *corev1.Node) *corev1.Node {
	node = node.DeepCopy()
	for i := range node.Status.Conditions {
		node.Status.Conditions[i].LastHeartbeatTime = metav1.Time{}
	}
	return node
}

// restoreLabels sets the labels on an existing node that a kubelet owns and corrects when it registers again, and reports
// whether any changed.
func restoreLabels(existing *corev1.Node, registration *corev1.Node) bool {
	changed := false
	for _, key := range []string{
		corev1.LabelHostname, corev1.LabelOSStable, corev1.LabelArchStable, betaOSLabel, betaArchLabel,
		corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelInstanceTypeStable,
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceType,
	} {
		value, ours := registration.Labels[key]
		if !ours || existing.Labels[key] == value {
			continue
		}
		if existing.Labels == nil {
			existing.Labels = map[string]string{}
		}
		existing.Labels[key] = value
		changed = true
	}
	return changed
}
