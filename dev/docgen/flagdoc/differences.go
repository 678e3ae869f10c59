package flagdoc

// OtherDefault is why a flag has another default than in the reference.
type OtherDefault struct{ Reference, Reason string }

// OtherDefaults are the flags of the reference that have another default here. Each is a promise broken, so each needs its
// reason; docs/reference/flags.md shows it.
func OtherDefaults() map[string]OtherDefault {
	return map[string]OtherDefault{
		"kube-api-qps": {"20", "A client that throttles itself delays a mass join of nodes on an idle API server. A busy one has API " +
			"Priority and Fairness. A positive value switches the client's throttling on again, with --kube-api-burst"},
	}
}

// Additions are the flags that the reference does not have, with the reason where the meaning of the flag does not show it.
func Additions() map[string]string {
	return map[string]string{
		"node-selector":                    "",
		"provider-id-schemes":              "",
		"node-label-managers":              "",
		"cloud-api-timeout":                "",
		"cloud-api-write-timeout":          "",
		"cloud-api-max-in-flight":          "",
		"cloud-api-qps":                    "",
		"cloud-api-burst":                  "",
		"service-account-prefix":           "The reference's node-controller account may also evict pods",
		"cloud-config-object":              "",
		"tracing-config-file":              "",
		"concurrent-route-syncs":           "The reference always makes 200 at once",
		"node-full-refresh-period":         "The reference makes 60,000 calls an hour for 5,000 nodes",
		"node-deletion-confirmations":      "The reference deletes a node by the first answer that denies its instance",
		"node-deletion-min-age":            "",
		"node-deletion-min-denial-time":    "",
		"node-deletion-limit":              "Nodes beyond the limit stay and say so",
		"load-balancer-classes":            "",
		"load-balancer-default-class":      "",
		"load-balancer-target-delay":       "",
		"load-balancer-drift-check-period": "",
		"load-balancer-drift-check-calls":  "",
		"load-balancer-ensure-at-start":    "The reference ensures all after each restart, and some plugins drop connections then",
		"collect-orphans":                  "",
		"dry-run":                          "",
		"leader-elect-kubeconfig":          "",
		"graceful-shutdown-timeout":        "",
	}
}

// OfExtensions are the flags of the extensions, as Additions.
func OfExtensions() map[string]string {
	return map[string]string{
		"autoscaler-bind-address":            "",
		"autoscaler-port":                    "",
		"autoscaler-tls-cert-file":           "",
		"autoscaler-tls-private-key-file":    "",
		"autoscaler-client-ca-file":          "",
		"autoscaler-load-balancer-wait":      "",
		"kubelet-serving-allowed-dns":        "",
		"kubelet-serving-allowed-cidrs":      "",
		"kubelet-serving-deny":               "",
		"kubelet-serving-approvals-per-hour": "",
		"kubelet-serving-cluster-domain":     "A kubelet with a certificate for a name in this domain could answer for Services",
		"kubelet-serving-trust-provider-ids": "A cloud whose instances do not have the names of their nodes",
		"metal-config-source":                "A cluster moves from MetalLB and back with the resources that it has",
	}
}

// reasonFor returns why there is a flag that the reference does not have, if that is so.
func reasonFor(flag string) (why string, added bool) {
	if why, added = Additions()[flag]; !added {
		why, added = OfExtensions()[flag]
	}
	return why, added
}

// positive is the note of periods that must not be zero.
const positive = "Zero or less is an error at start-up; the reference then never pauses"

// Notes say how flags of the reference behave differently here.
func Notes() map[string]string {
	return map[string]string{
		"controllers": "Naming a controller of the reference that this build does not contain is an error at start-up. `*` does not name " +
			"it: the log then says which ones are missing",
		"allocate-node-cidrs": "Without --cluster-cidr it is an error at start-up; the reference logs that and leaves out its route controller",
		"cluster-cidr":        "A value that is no CIDR is an error at start-up, whether routes are configured or not",
		"configure-cloud-routes": "Without --cluster-cidr no routes are configured, and the log says so; the reference ends there if the provider " +
			"has routes. It is an error at start-up if --controllers names the route controller",
		"route-reconciliation-period": "The pause after a change of the routes, and three of them while nothing changes. A change of a node is applied " +
			"at once, or once in a period while changes keep coming. " + positive,
		"feature-gates": "CloudControllerManagerWatchBasedRoutesReconciliation works as in the reference; --route-reconciliation-period is how " +
			"often while nodes keep changing, 10 s there",
		"kube-api-content-type": "An unknown type is an error at start-up; with the reference every write fails",
		"node-status-update-frequency": "With a provider that can neither list nor watch instances, the default is how often a node is looked up that has " +
			"just changed; for others see --node-full-refresh-period. " + positive,
		"leader-elect-resource-name":      "Empty is an error at start-up; the reference then never leads",
		"leader-elect-resource-namespace": "Empty is an error at start-up; the reference then never leads",
		"leader-elect":                    "The lease is released on SIGTERM and SIGINT, after the controllers have stopped. Standbys learn that by a watch",
		"enable-leader-migration": "Without --leader-elect it is an error at start-up; the reference then ignores it. The plugin is initialized " +
			"once, not once per lease",
		"leader-elect-lease-duration": "Whole seconds, because a Lease counts in seconds; the reference cuts the rest off",
		"cloud-provider":              "An unknown name is an error that lists the names that this program has, as is `external`",
		"authorization-always-allow-paths": "/livez and /readyz are served too, and a kubelet may probe them without credentials. Single checks, such as " +
			"/readyz/informer-sync, need credentials",
		"concurrent-node-syncs": "How many new nodes the cloud is asked for at the same time. Unless it is set, what the provider declares, or " +
			"--cloud-api-max-in-flight, goes before. Writes to the API server do not count. A negative number is an error at start-up",
		"concurrent-node-status-updates": "How many other nodes the cloud is asked for at the same time; as --concurrent-node-syncs. The reference panics at a negative number",
		"concurrent-node-lifecycle-syncs": "How many questions whether an instance exists or runs are under way at the same time; as " +
			"--concurrent-node-syncs",
		"concurrent-service-syncs": "How many calls that change load balancers are under way at the same time. Unless it is set, what the provider " +
			"declares as LoadBalancerWrites goes before. A negative number is an error at start-up",
		"node-monitor-period": "The longest pause between two passes over the nodes. The next one comes after two seconds if a node has become not " +
			"ready or a denial waits for its confirmation. Each asks the cloud once, and only if a node is not ready. " + positive,
		"kube-api-burst":    "Without effect unless --kube-api-qps is positive. As in the reference, both bound each client",
		"min-resync-period": "For the informers that a plugin asks for. The manager's own cache has no resyncs",
	}
}
