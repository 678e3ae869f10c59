package check

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/managers"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/tool/words"
)

// apiServer compares the API server's minor version with the tested ones. Kubernetes lets clients differ by one.
func apiServer(seen *Observation) answer {
	if seen.Server.Unread != "" {
		return answer{unknown: []string{seen.Server.Unread}}
	}
	server, err := version.ParseGeneric(seen.Server.Value)
	if err != nil {
		return answer{unknown: []string{fmt.Sprintf("the version %q of the API server is not valid", seen.Server.Value)}}
	}
	names := strings.Join(seen.Tested, ", ")
	said := answer{note: seen.Server.Value + "; tested with " + names}
	for _, name := range seen.Tested {
		tested, err := version.ParseGeneric(name)
		if err != nil {
			return answer{unknown: []string{fmt.Sprintf("the version %q that this program is tested with is not valid", name)}}
		}
		if apart := int(server.Minor()) - int(tested.Minor()); server.Major() == tested.Major() && apart >= -1 && apart <= 1 {
			return said
		}
	}
	said.findings = []Finding{{
		Severity: Warning, Seen: fmt.Sprintf("the API server is %s; this version is tested with %s", seen.Server.Value, names),
		Do: "use a version of Mooring whose libraries are at most one minor version away, or try yours in a cluster that may break",
	}}
	return said
}

// kubelets finds nodes that registered without the taint: no cloud controller manager will ever initialize them.
func kubelets(seen *Observation) answer {
	if seen.Nodes.Unread != "" {
		return answer{unknown: []string{seen.Nodes.Unread}}
	}
	if len(seen.Nodes.Value) == 0 {
		return answer{absent: true, note: "there are no nodes"}
	}
	if seen.leavesNodes() {
		return answer{absent: true, note: "--controllers of the manager names no controller of nodes: it needs nothing of kubelets"}
	}
	var without []string
	for i := range seen.Nodes.Value {
		node := &seen.Nodes.Value[i]
		if node.Spec.ProviderID == "" && !ownership.Uninitialized(node) && node.DeletionTimestamp == nil && !foreign(node, seen) {
			without = append(without, node.Name)
		}
	}
	said := answer{note: words.Count(len(seen.Nodes.Value), "node waits for a manager or has", "nodes wait for a manager or have") + " a provider ID"}
	if len(without) > 0 {
		said.findings = []Finding{{
			Severity: Error, Objects: without,
			Seen: words.Count(len(without), "node has", "nodes have") + " neither a provider ID nor the taint " +
				"node.cloudprovider.kubernetes.io/uninitialized: registered by a kubelet without --cloud-provider=external",
			Do: "give these kubelets --cloud-provider=external; then taint the nodes, or annotate nodes that belong to no cloud " +
				ownership.AnnotationIgnore + "=true",
		}}
	}
	return said
}

// leavesNodes reports whether the manager's --controllers leaves out the controller that initializes nodes.
func (o *Observation) leavesNodes() bool {
	return !o.flags().Runs("cloud-node-controller", "cloud-node")
}

func foreign(node *corev1.Node, seen *Observation) bool {
	return ownership.Rules{Schemes: seen.schemes()}.Decide(node).Owner == ownership.Foreign
}

// schemes are the schemes that the caller named, or else the manager's flag.
func (o *Observation) schemes() []string {
	if len(o.Schemes) > 0 {
		return o.Schemes
	}
	if named, found := o.flags()["provider-id-schemes"]; found {
		return strings.Split(named, ",")
	}
	return nil
}

// controllerManager looks at what can be seen of kube-controller-manager: the command lines of its pods.
func controllerManager(seen *Observation) answer {
	if seen.ControllerManagers.Unread != "" {
		return answer{unknown: []string{seen.ControllerManagers.Unread}}
	}
	if len(seen.ControllerManagers.Value) == 0 {
		return answer{absent: true, note: "no pod of it is in kube-system: this control plane runs it elsewhere, and its flags cannot be seen"}
	}
	// Whether routes are configured, the manager's flags say.
	said := answer{note: words.Count(len(seen.ControllerManagers.Value), "replica", "replicas"), unknown: unread(seen.Workloads.Unread)}
	if seen.routes() {
		said.unknown = append(said.unknown, unread(seen.Nodes.Unread)...)
	}
	for i := range seen.ControllerManagers.Value {
		pod := &seen.ControllerManagers.Value[i]
		for j := range pod.Spec.Containers {
			said.findings = append(said.findings, controllerManagerFlags(seen, pod.Name, managers.FlagsOf(&pod.Spec.Containers[j]))...)
		}
	}
	return said
}

func controllerManagerFlags(seen *Observation, pod string, flags managers.Flags) []Finding {
	var findings []Finding
	find := func(severity State, seen, do string) {
		findings = append(findings, Finding{Severity: severity, Seen: seen, Do: do, Objects: []string{pod}})
	}
	if provider := flags["cloud-provider"]; provider != "" && provider != "external" {
		find(Error, fmt.Sprintf("--cloud-provider=%s: kube-controller-manager is to run the cloud's controllers itself", provider),
			"remove the flag from kube-controller-manager, or set it to external")
	}
	if !seen.routes() {
		return findings
	}
	if own, theirs := seen.flags()["cluster-cidr"], flags["cluster-cidr"]; own != "" && theirs != "" && own != theirs {
		find(Error, fmt.Sprintf("--cluster-cidr=%s, but the manager has --cluster-cidr=%s: routes to pods outside of its range are not its own", theirs, own),
			"set --cluster-cidr of the manager to the value of kube-controller-manager")
	}
	lacking := slices.ContainsFunc(seen.Nodes.Value, func(node corev1.Node) bool { return node.Spec.PodCIDR == "" })
	if !flags.Is("allocate-node-cidrs") && lacking {
		find(Warning, "--allocate-node-cidrs is not set, and nodes without a pod CIDR get no route",
			"set --allocate-node-cidrs and --cluster-cidr of kube-controller-manager, or have your network plugin write spec.podCIDR")
	}
	return findings
}

// proxyConfig is what matters of a KubeProxyConfiguration.
type proxyConfig struct {
	HealthzBindAddress string `json:"healthzBindAddress"`
}

// defaultProbedPort is what the provider metal asks kube-proxies at.
const defaultProbedPort = "10256"

// onMetal reports whether the provider is metal: by the manager's command line, or by provider IDs if it runs where that cannot be seen.
func (o *Observation) onMetal() bool {
	if flags := o.flags(); flags != nil {
		return flags["cloud-provider"] == "metal"
	}
	return slices.ContainsFunc(o.Nodes.Value, func(node corev1.Node) bool { return strings.HasPrefix(node.Spec.ProviderID, "metal://") })
}

// kubeProxy looks whether the provider metal can probe kube-proxy from another machine.
func kubeProxy(seen *Observation) answer {
	if reasons := unread(seen.Workloads.Unread, seen.Nodes.Unread); len(reasons) > 0 {
		return answer{unknown: reasons}
	}
	if !seen.onMetal() {
		return answer{absent: true, note: "only the provider metal asks kube-proxy, and no manager or node is of that provider"}
	}
	if seen.KubeProxy.Unread != "" {
		return answer{unknown: []string{seen.KubeProxy.Unread}}
	}
	if seen.KubeProxy.Value == nil {
		return answer{absent: true, note: "there is no ConfigMap kube-system/kube-proxy: a distribution runs it, or something in its place"}
	}
	var config proxyConfig
	if err := yaml.Unmarshal([]byte(seen.KubeProxy.Value.Data["config.conf"]), &config); err != nil {
		return answer{unknown: []string{"config.conf of the ConfigMap kube-system/kube-proxy: " + err.Error()}}
	}
	address := cmp.Or(config.HealthzBindAddress, "0.0.0.0:"+defaultProbedPort)
	host, port, err := net.SplitHostPort(address)
	if err != nil { // an address without a port has the default one
		host, port = address, defaultProbedPort
	}
	said := answer{note: "healthzBindAddress is " + address}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		said.findings = append(said.findings, Finding{
			Severity: Error, Seen: fmt.Sprintf("healthzBindAddress is %s: no other machine reaches it, and all nodes look as if kube-proxy did not answer", address),
			Do: "set healthzBindAddress in the ConfigMap kube-system/kube-proxy to 0.0.0.0:10256, and restart the kube-proxies",
		})
	}
	if port != defaultProbedPort {
		said.findings = append(said.findings, Finding{
			Severity: Warning, Seen: fmt.Sprintf("healthzBindAddress has the port %s; by default %s is probed", port, defaultProbedPort),
			Do: fmt.Sprintf("set health.kubeProxyPort: %s in the cloud config of the provider metal", port),
		})
	}
	return said
}
