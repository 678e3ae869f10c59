package servingcertificate

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"
)

// policy is what the operator decides.
type policy struct {
	// DNS are patterns of names that nodes may have in their certificates beyond those of the cloud. A pattern is a name in which * stands
	// for any characters but a dot, and {node} for the name of a node that is one label: "{node}", "{node}.nodes.example.com",
	// "*.rack-1.example.com". No pattern allows a name of the API server, or of a Service.
	DNS []string
	// CIDRs are networks any address of which nodes may have in their certificates.
	CIDRs []netip.Prefix
	// APIServer is the name or the address by which this manager reaches the API server. No pattern and no network allows it.
	APIServer string
	// ClusterDomain is the domain of Services and Pods. No node has a name in it.
	ClusterDomain string
	// Deny says which requests are denied. Requests that are neither approved nor denied stay pending.
	Deny denyPolicy
	// PerHour is how many requests of one node are approved within an hour.
	PerHour int
	// TrustProviderIDs has the cloud asked by a node's provider ID, which the kubelet may have written, and not by its name.
	TrustProviderIDs bool
}

// denyPolicy says which requests are denied that are not approved.
type denyPolicy string

const (
	// denyNothing leaves them all pending, so another approver may approve them.
	denyNothing denyPolicy = "Never"
	// denyInvalid denies requests that do not conform to the signer's rules: they will never be right.
	denyInvalid denyPolicy = "Invalid"
	// denyUnknown denies those too that ask for what the cloud does not report for the instance. The kubelet asks again by itself.
	denyUnknown denyPolicy = "Unknown"
)

// nodePlaceholder stands for the name of the node in a pattern.
const nodePlaceholder = "{node}"

// facts are what is known of the node that asks, when its requests are looked at.
type facts struct {
	// exists says that there is a Node of that name, and ours that it is not another manager's.
	exists, ours bool
	// asking says that the cloud is being asked about the instance.
	asking bool
	// known says that the cloud has an instance for the node. If not, unknown says why.
	known   bool
	unknown string
	// fresh says that the cloud was asked after the requests came.
	fresh bool
	// names and ips are those of the instance, by the cloud.
	names []string
	ips   []netip.Addr
	// approved are when requests of this node were approved.
	approved []time.Time
}

// kind is what is done with a request.
type kind string

const (
	approve kind = "approve"
	deny    kind = "deny"
	wait    kind = "wait"   // it stays pending, and is looked at again
	ignore  kind = "ignore" // it is not for us to decide
)

// Reasons of conditions and events. They are documented in docs/reference/events-and-conditions-services.md.
const (
	// ReasonApproved is the reason of the condition Approved.
	ReasonApproved = "ServingCertificateApproved"
	// ReasonInvalid is that the request does not conform to the rules of its signer, for which it may be denied.
	ReasonInvalid = "ServingCertificateRequestInvalid"
	// ReasonNoNode is that there is no Node of the requester's name.
	ReasonNoNode = "ServingCertificateNodeUnknown"
	// ReasonNoInstance is that the cloud does not say which instance the node is.
	ReasonNoInstance = "ServingCertificateInstanceUnknown"
	// ReasonNotReported is that it asks for what the cloud does not report, for which it may be denied.
	ReasonNotReported = "ServingCertificateAddressUnknown"
	// ReasonTooMany is that the node has had as many approvals as it may have for now.
	ReasonTooMany = "ServingCertificateTooMany"
	// ReasonWriteFailed is that the API server did not take the decision.
	ReasonWriteFailed = "ServingCertificateWriteFailed"
)

// waitReasons are those for which a request stays pending.
func waitReasons() []string {
	return []string{ReasonInvalid, ReasonNoNode, ReasonNoInstance, ReasonNotReported, ReasonTooMany}
}

// approvalPeriod is the time over which the approvals of a node are counted. kube-controller-manager deletes an approved request an hour
// after its approval, so the requests themselves are the record that a new leader counts by.
const approvalPeriod = time.Hour

// decision is what is done with a request, and why.
type decision struct {
	kind kind
	// reason is empty where there is nothing to say yet.
	reason  string
	message string
	// ask says that the cloud may know more than its answer of before the request, and has to be asked again first.
	ask bool
	// after is when to look again at a request that waits, if nothing changes before. Zero: by the backoff.
	after time.Duration
}

// settled says that looking again cannot help: the request stays as it is.
func (d decision) settled() bool { return d.kind != wait || d.reason == ReasonInvalid }

// planFor says what is done with the requests of one requester, in their order: each approval leaves less for those after it.
func planFor(requests []request, known facts, policy policy, now time.Time) []decision {
	decisions := make([]decision, 0, len(requests))
	known.approved = slices.SortedFunc(slices.Values(known.approved), time.Time.Compare)
	for _, asked := range requests {
		decided := decide(asked, known, policy, now)
		if decided.kind == approve {
			known.approved = append(known.approved, now)
		}
		decisions = append(decisions, decided)
	}
	return decisions
}

// decide says what is done with a request. The approvals that are known are sorted.
func decide(asked request, known facts, policy policy, now time.Time) decision {
	switch {
	case asked.node != "" && known.exists && !known.ours:
		return decision{kind: ignore}
	case len(asked.problems) > 0:
		return refuse(policy.Deny != denyNothing, ReasonInvalid, "The request does not conform to the rules of its signer: "+strings.Join(asked.problems, "; "))
	case !known.exists:
		return decision{kind: wait, reason: ReasonNoNode, message: fmt.Sprintf("There is no node %s.", asked.node)}
	case known.asking:
		return decision{kind: wait}
	case !known.known && !known.fresh:
		return decision{kind: wait, ask: true}
	case !known.known:
		return decision{kind: wait, reason: ReasonNoInstance, message: "The cloud does not say which instance the node is: " + known.unknown}
	}
	if foreign := notReported(asked, known, policy); len(foreign) > 0 {
		if !known.fresh {
			return decision{kind: wait, ask: true}
		}
		return refuse(policy.Deny == denyUnknown, ReasonNotReported,
			"The cloud does not report for this instance, and neither --kubelet-serving-allowed-dns nor --kubelet-serving-allowed-cidrs allows: "+strings.Join(foreign, ", "))
	}
	if free := nextFree(known.approved, policy.PerHour, now); free > 0 {
		return decision{kind: wait, reason: ReasonTooMany, after: free, message: fmt.Sprintf(
			"%d requests of this node were approved within an hour, as many as --kubelet-serving-approvals-per-hour allows.", policy.PerHour)}
	}
	return decision{kind: approve, reason: ReasonApproved,
		message: "The cloud reports all names and addresses for this instance, or the operator allows them."}
}

func refuse(denied bool, reason, message string) decision {
	if denied {
		return decision{kind: deny, reason: reason, message: message}
	}
	return decision{kind: wait, reason: reason, message: message}
}

// notReported returns the names and addresses that the instance does not have and no flag allows, as texts.
func notReported(asked request, known facts, policy policy) []string {
	var foreign []string
	for _, name := range asked.names {
		allowed := !ofAPIServer(name, policy) && slices.ContainsFunc(policy.DNS, func(p string) bool { return matches(p, asked.node, name) })
		if reserved(name, policy) || !slices.Contains(known.names, name) && !allowed {
			foreign = append(foreign, name)
		}
	}
	for _, ip := range asked.ips {
		allowed := ip.String() != policy.APIServer && slices.ContainsFunc(policy.CIDRs, func(p netip.Prefix) bool { return p.Contains(ip) })
		if !slices.Contains(known.ips, ip) && !allowed {
			foreign = append(foreign, ip.String())
		}
	}
	return foreign
}

// defaultClusterDomain is what kubelets and DNS servers of clusters have by default.
const defaultClusterDomain = "cluster.local"

// reserved reports whether a name is the API server's or a Service's, which no node has, whatever a kubelet or the cloud says: a kubelet with a
// bootstrap token chooses the name of its node, and who may create instances chooses theirs.
func reserved(name string, policy policy) bool {
	labels := strings.Split(name, ".")
	return labels[0] == "kubernetes" || name == "localhost" || slices.Contains(labels[1:], "svc") ||
		within(name, defaultClusterDomain) || within(name, strings.ToLower(policy.ClusterDomain))
}

// within reports whether a name is a domain or one in it.
func within(name, domain string) bool { return domain != "" && strings.HasSuffix("."+name, "."+domain) }

// ofAPIServer reports whether a name may be one of the API server's that only the cloud can say to be an instance's: a control plane of one
// machine is reached by its name, and some clouds call instances kubernetes-....
func ofAPIServer(name string, policy policy) bool {
	return strings.HasPrefix(name, "kubernetes") || name == strings.ToLower(strings.TrimSuffix(policy.APIServer, "."))
}

// matches reports whether a name is one of a pattern. A star does not match a dot, as in certificates, nor does {node}: the name of a node may
// belong to any machine.
func matches(pattern, node, name string) bool {
	if strings.Contains(node, ".") && strings.Contains(strings.ToLower(pattern), nodePlaceholder) {
		return false
	}
	pattern = strings.ReplaceAll(strings.ToLower(pattern), nodePlaceholder, node)
	want, have := strings.Split(pattern, "."), strings.Split(name, ".")
	return slices.EqualFunc(want, have, func(label, text string) bool {
		matched, err := path.Match(label, text)
		return err == nil && matched
	})
}

// nextFree returns how long it takes until another request of a node may be approved. The approvals are sorted.
func nextFree(approved []time.Time, perHour int, now time.Time) time.Duration {
	recent := approved
	for len(recent) > 0 && now.Sub(recent[0]) >= approvalPeriod {
		recent = recent[1:]
	}
	if len(recent) < perHour {
		return 0
	}
	return recent[len(recent)-perHour].Add(approvalPeriod).Sub(now)
}
