package check

import "time"

// rules are all checks, in the order in which they are shown: first the cluster, then the manager, then what they do together.
var rules = []rule{
	{"api-server", "Version of the API server", apiServer},
	{"kubelets", "Kubelets with --cloud-provider=external", kubelets},
	{"kube-controller-manager", "Flags of kube-controller-manager", controllerManager},
	{"kube-proxy", "Health port of kube-proxy, for the provider metal", kubeProxy},
	{"pods", "Pods of the manager", pods},
	{"leader", "Leader of the manager", leader},
	{"rights", "Rights of the manager", rights},
	{"other-managers", "Other managers of the same nodes", otherManagers},
	{"provider-ids", "Provider IDs of nodes", providerIDs},
	{"taints", "Taints and conditions that a manager removes", taints},
	{"announcement", "Addresses that routers have, with the provider metal", announcement},
	{"load-balancers", "Load balancers that no controller provides", loadBalancers},
}

// Names are the names of all checks.
func Names() []string {
	var names []string
	for _, rule := range rules {
		names = append(names, rule.name)
	}
	return names
}

const (
	// patience is how long something may wait before it is a finding: longer than a manager's period of retries.
	patience = 5 * time.Minute
	// recently is how long ago a write of another manager counts as one that is still at work.
	recently = time.Hour
	// skew is by how much clocks may differ.
	skew = 10 * time.Second
)
