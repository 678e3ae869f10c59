package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/view"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/internal/tool/words"
)

// providerIDs looks for nodes of several providers, and for machines with two nodes.
func providerIDs(seen *Observation) answer {
	if seen.Nodes.Unread != "" {
		return answer{unknown: []string{seen.Nodes.Unread}}
	}
	byScheme, byID := map[string][]string{}, map[string][]string{}
	for i := range seen.Nodes.Value {
		node := &seen.Nodes.Value[i]
		if node.Spec.ProviderID == "" || foreign(node, seen) {
			continue
		}
		scheme, _ := ownership.Scheme(node.Spec.ProviderID)
		byScheme[scheme] = append(byScheme[scheme], node.Name)
		byID[node.Spec.ProviderID] = append(byID[node.Spec.ProviderID], node.Name)
	}
	schemes := slices.Sorted(maps.Keys(byScheme))
	said := answer{note: "none is set", unknown: unread(seen.Workloads.Unread)}
	if len(schemes) == 1 {
		said.note = fmt.Sprintf("all are %s", schemeName(schemes[0]))
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		if names := byID[id]; len(names) > 1 {
			said.findings = append(said.findings, Finding{
				Severity: Error, Objects: names, Seen: fmt.Sprintf("%s have one provider ID, %q", strings.Join(names, " and "), id),
				Do: "find out which node is the machine's, and delete the other; a provider ID cannot be changed",
			})
		}
	}
	if len(schemes) > 1 {
		said.findings = append(said.findings, Finding{
			Severity: Warning, Objects: minority(byScheme), Seen: "provider IDs are of several providers: " + countSchemes(byScheme, schemes),
			Do: "if these nodes are not this manager's, say so by --provider-id-schemes or --node-selector (docs/how-to/several-ccms.md)",
		})
	}
	return said
}

func schemeName(scheme string) string {
	if scheme == ownership.BareIDs {
		return "without a scheme"
	}
	return scheme + "://"
}

func countSchemes(byScheme map[string][]string, schemes []string) string {
	var parts []string
	for _, scheme := range schemes {
		parts = append(parts, fmt.Sprintf("%d %s", len(byScheme[scheme]), schemeName(scheme)))
	}
	return strings.Join(parts, ", ")
}

// minority are the nodes of all schemes but the most frequent one.
func minority(byScheme map[string][]string) []string {
	most := slices.MaxFunc(slices.Sorted(maps.Keys(byScheme)), func(a, b string) int { return cmp.Compare(len(byScheme[a]), len(byScheme[b])) })
	var names []string
	for _, scheme := range slices.Sorted(maps.Keys(byScheme)) {
		if scheme != most {
			names = append(names, byScheme[scheme]...)
		}
	}
	return names
}

// taints looks for taints and conditions that a manager should have removed.
func taints(seen *Observation) answer {
	if seen.Nodes.Unread != "" {
		return answer{unknown: []string{seen.Nodes.Unread}}
	}
	groups := map[string]*Finding{}
	add := func(key string, finding Finding, node string) {
		if groups[key] == nil {
			groups[key] = &finding
		}
		groups[key].Objects = append(groups[key].Objects, node)
	}
	status := seen.status()
	kubernetes := map[string]*corev1.Node{}
	for i := range seen.Nodes.Value {
		kubernetes[seen.Nodes.Value[i].Name] = &seen.Nodes.Value[i]
	}
	for _, node := range status.Nodes {
		switch of := kubernetes[node.Name]; {
		case node.State == view.NodeUninitialized && seen.Now.Sub(node.Since) > patience:
			add("uninitialized "+node.Why, Finding{
				Severity: Error, Seen: "the taint node.cloudprovider.kubernetes.io/uninitialized has not been removed for " + patience.String() + "; " + node.Why,
				Do: "see MooringNodeUninitialized in docs/how-to/runbooks.md",
			}, node.Name)
		case node.State == view.NodeHeld:
			add("held", Finding{
				Severity: Error, Seen: "the cloud denies instances of nodes, and their deletion is held back",
				Do: "read the condition CloudInstanceGone of these nodes; see MooringDeletionsHeld in docs/how-to/runbooks.md",
			}, node.Name)
		case node.State == view.NodeShutDown && readyFor(of, seen):
			add("shutdown", Finding{
				Severity: Warning, Seen: "the taint node.cloudprovider.kubernetes.io/shutdown stays although the kubelet has been ready for " + patience.String(),
				Do: "check whether a manager leads, and whether the cloud has the instance",
			}, node.Name)
		}
		if node.Denied {
			add("denied", Finding{
				Severity: Warning, Seen: "the cloud denies instances of nodes that are ready, which are therefore not deleted",
				Do: "if a machine was made again under its name, delete the Node: its kubelet registers it anew; else look for the instance in the " +
					"account and region of the cloud config",
			}, node.Name)
		}
		if node.Routed != nil && !*node.Routed && unroutedFor(kubernetes[node.Name], seen) {
			add("routes", Finding{
				Severity: Warning, Seen: "the condition NetworkUnavailable has been true for " + patience.String() + ": " + node.Why,
				Do: "see MooringRoutesMissing in docs/how-to/runbooks.md; if your network plugin writes the condition, look at its pods; " +
					"if you turned routes off, docs/how-to/troubleshooting.md has the command that clears it",
			}, node.Name)
		}
	}
	said := answer{note: "none that stays"}
	if seen.Events.Unread != "" {
		said.unknown = []string{seen.Events.Unread}
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		said.findings = append(said.findings, *groups[key])
	}
	return said
}

// readyFor reports whether a node has been ready for longer than a manager needs.
func readyFor(node *corev1.Node, seen *Observation) bool {
	return conditionFor(node, corev1.NodeReady, seen)
}

// unroutedFor reports whether the network has been unavailable for longer than a manager needs.
func unroutedFor(node *corev1.Node, seen *Observation) bool {
	return conditionFor(node, corev1.NodeNetworkUnavailable, seen)
}

func conditionFor(node *corev1.Node, kind corev1.NodeConditionType, seen *Observation) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == kind && condition.Status == corev1.ConditionTrue && seen.Now.Sub(condition.LastTransitionTime.Time) > patience
	})
}

// announcement looks for addresses that are announced to no router, by the condition that the provider metal writes.
func announcement(seen *Observation) answer {
	if seen.Services.Unread != "" {
		return answer{unknown: []string{seen.Services.Unread}}
	}
	noSession := Finding{
		Severity: Error, Seen: "no router has the addresses of Services, since the leader has no session for them",
		Do: "ask mooring status --port-forward for the sessions; docs/how-to/metal-routers.md says what each problem means",
	}
	other := Finding{
		Severity: Warning, Do: "look up the reason in docs/reference/events-and-conditions-services.md; mooring status shows the reason of each Service",
	}
	asked := 0
	for _, service := range seen.status().Services {
		if service.Announced == nil {
			continue
		}
		asked++
		switch name := service.Namespace + "/" + service.Name; {
		case *service.Announced:
		case service.NoSession:
			if len(noSession.Objects) == 0 {
				noSession.Seen += ": " + service.Why
			}
			noSession.Objects = append(noSession.Objects, name)
		default:
			other.Seen = "addresses of Services are not announced: " + service.Why
			other.Objects = append(other.Objects, name)
		}
	}
	if asked == 0 {
		return answer{note: "no Service carries the condition " + names.ConditionAnnounced}
	}
	said := answer{note: words.Count(asked, "Service", "Services")}
	for _, finding := range []Finding{noSession, other} {
		if len(finding.Objects) > 0 {
			said.findings = append(said.findings, finding)
		}
	}
	return said
}

// loadBalancers looks for Services that wait for the load balancer they ask for.
func loadBalancers(seen *Observation) answer {
	if seen.Services.Unread != "" {
		return answer{unknown: []string{seen.Services.Unread}}
	}
	groups := map[view.ServiceState]*Finding{}
	asked := 0
	for _, service := range seen.status().Services {
		asked++
		late := seen.Now.Sub(service.Since) > patience
		finding := Finding{Severity: Warning}
		switch {
		case service.State == view.ServiceUntouched && late && len(service.Addresses) == 0:
			finding.Seen = "no manager has said anything of Services of the type LoadBalancer"
			finding.Do = "look whether a manager leads, and whether its provider has load balancers; a Service with loadBalancerClass waits for a controller of that class"
		case service.State == view.ServiceNotReady && late:
			finding.Seen = "load balancers are not ready: " + service.Why
			finding.Do = "see MooringServiceUnfinished in docs/how-to/runbooks.md; mooring status shows each reason"
		case service.State == view.ServiceWithdrawing && late && !service.Since.IsZero():
			finding.Seen = "Services wait for the end of their load balancers: " + service.Why
			finding.Do = "look whether a manager leads; without one, the finalizer service.kubernetes.io/load-balancer-cleanup stays"
		default:
			continue
		}
		if groups[service.State] == nil {
			groups[service.State] = &finding
		}
		groups[service.State].Objects = append(groups[service.State].Objects, service.Namespace+"/"+service.Name)
	}
	if asked == 0 {
		return answer{absent: true, note: "no Service asks for one"}
	}
	said := answer{note: words.Count(asked, "Service", "Services")}
	for _, state := range slices.Sorted(maps.Keys(groups)) {
		said.findings = append(said.findings, *groups[state])
	}
	return said
}
