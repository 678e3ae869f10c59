// Package apiserver is an API server in memory: an http.RoundTripper for the clients of a cloud controller manager.
//
// It has no socket and no goroutine, so it works in a bubble of testing/synctest. A request is answered in the goroutine that sends it. The body of
// a watch is fed while its client reads it, and waits on channels and timers of the bubble. Create a Server in the bubble that uses it.
//
//	server := apiserver.New(apiserver.Options{Seed: 1})
//	client, err := kubernetes.NewForConfig(server.Config("system:serviceaccount:kube-system:cloud-controller-manager"))
//
// What it draws (UIDs, generated names, cluster IPs, node ports, the durations of watches) depends on the seed, the object and how often that was
// drawn before, and not on the order in which requests arrive.
//
// TestLikeKubernetes compares it with kube-apiserver v1.36.3, for codes, reasons, causes, objects with their managedFields, pages and watches.
//
// # Known differences
//
// Resources: only those of the table in resources.go exist. There is no deletion of collections, no server-side apply (415), no Table and no CBOR (406
// and 415), no OpenAPI, no scale, binding, eviction, log or finalize subresource, and no
// orphanDependents in options of a deletion.
//
// Reads: lists and watches are always up to date, while the cache of a real server may lag. All watches expire at the same version, by age or
// by Compact, while the cache of a real server drops events by their number. The durations of watches without a timeout differ.
//
// Writes: no authentication (an identity is what Client is called with), no rate limit, no webhooks, no quota, no priority and fairness. Pods get no
// defaults, validation or admission, but a phase and a deletion with grace. Secrets, Endpoints, EndpointSlices, Leases and certificate requests
// are validated for their metadata and little else. fieldValidation is Strict or Ignore; Warn sends no warnings. Events never expire.
// A namespace that is deleted stays Terminating, and its objects stay, as without kube-controller-manager. No garbage collector runs.
//
// Services: the causes of a refused creation may be fewer, because a real server allocates before it validates. An
// internalTrafficPolicy of type ExternalName is never shown. A real server shows it in answers of the status subresource.
//
// managedFields of an Event that two versions of the API write have only the newest version's fields. Reviews have no managedFields.
// Discovery lists no hashes and no categories.
//
// # What only Kubernetes 1.37 has
//
// v1.36.3 is the newest version that builds here. We compared its source with the source of v1.37.2 for what this server plays: the handlers and the
// store of k8s.io/apiserver, the strategies of the resources, and their types and validation. Both versions answer the requests of a cloud controller
// manager alike, except for these differences:
//
//   - A watch that sends the initial events first is compressed if the client accepts gzip (WatchListCompression, on). This server compresses nothing.
//   - An ownerReference without a kind, name or UID is refused with the cause FieldValueRequired instead of FieldValueInvalid. Its path names the
//     index. An apiVersion that is no group and version is refused.
//   - A patch that is no JSON is refused before the object is looked up.
//   - Declarative validation runs for nodes, Services, Events, namespaces and Leases too. The results are those of the validation by hand.
//   - The deletion of a Service no longer deletes the Endpoints of its name. Here no controller makes any.
//   - A list that the cache cannot serve may be answered as retryable (ConsistentListFromCacheSkipTimeoutFallback, off). Here there is no cache.
//   - Nodes have spec.podPreemptionPolicy (off) and status.nodeInfo.runningInUserNamespace (off). The types here are v1.37's, so
//     this server keeps both fields, and a real one drops them.
//   - Conditions of nodes have five more names for drains and maintenance (NodeLifecycleConditions, off), which change nothing here.
//   - The group lifecycle.k8s.io (off) and, in certificates.k8s.io/v1, ClusterTrustBundles and PodCertificateRequests are new. No manager asks
//     for them.
package apiserver
