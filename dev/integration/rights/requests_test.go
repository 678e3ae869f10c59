package rights_test

import (
	"net/http"
	"regexp"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// request is what one or more requests of the manager have in common, as far as rights are concerned.
type request struct {
	user string
	// binding is what let the request pass, in the words of the API server; empty if nothing did.
	binding string
	refused bool
	verb    string
	group   string
	// resource has a subresource after a slash. A request for no resource has the path here.
	resource, namespace, name string
}

// String says who did what.
func (r request) String() string {
	return strings.TrimPrefix(r.user, "system:serviceaccount:kube-system:") + ": " + where(r.verb, r.group, r.resource, r.namespace, r.name)
}

// missing says what is not granted, in the words of the manager's own report.
func (r request) missing() string {
	return r.user + " may not " + where(r.verb, r.group, r.resource, r.namespace, r.name)
}

const (
	// decision and reason are the annotations by which the API server says whether a request was allowed, and why.
	decision = "authorization.k8s.io/decision"
	reason   = "authorization.k8s.io/reason"
	// programName begins the user agent of everything that the daemon asks.
	programName = "cloud-controller-manager"
	// shippedUser is who the shipped rights are for.
	shippedUser = "system:serviceaccount:kube-system:cloud-controller-manager"
)

// allowedBy finds the binding in a reason such as `RBAC: allowed by ClusterRoleBinding "a" of ClusterRole "b" to Group "c"`.
var allowedBy = regexp.MustCompile(`^RBAC: allowed by ((?:ClusterRoleBinding|RoleBinding) "[^"]+") of `)

// requestsOf returns what the manager asked the API server for, under whatever identity, and how often.
func requestsOf(events []auditv1.Event) map[request]int {
	counts := map[request]int{}
	for _, event := range events {
		// A request without a decision was not authenticated. No such request matters here.
		if event.Annotations[decision] != "" && ofTheManager(event) {
			r := requestOf(event)
			counts[r]++
			if by, asked := approvalOf(r, event); asked {
				counts[by]++
			}
		}
	}
	return counts
}

// approvalOf returns what else an approval of a serving certificate takes. The API server asks for it when it admits the request that it has
// authorized, and its log does not say so.
func approvalOf(r request, event auditv1.Event) (request, bool) {
	if r.resource != "certificatesigningrequests/approval" || r.refused || event.ResponseStatus == nil || event.ResponseStatus.Code != http.StatusOK {
		return request{}, false
	}
	r.verb, r.resource, r.name = "approve", "signers", certificatesv1.KubeletServingSignerName
	return r, true
}

func ofTheManager(event auditv1.Event) bool {
	return event.User.Username == shippedUser || strings.HasPrefix(event.UserAgent, programName+"/")
}

func requestOf(event auditv1.Event) request {
	r := request{user: event.User.Username, verb: event.Verb}
	if found := allowedBy.FindStringSubmatch(event.Annotations[reason]); found != nil {
		r.binding = found[1]
	}
	r.refused = event.Annotations[decision] != "allow" || event.ResponseStatus != nil && event.ResponseStatus.Code == http.StatusForbidden
	object := event.ObjectRef
	if object == nil {
		r.resource, _, _ = strings.Cut(event.RequestURI, "?")
		return r
	}
	r.group, r.resource, r.namespace, r.name = object.APIGroup, object.Resource, object.Namespace, object.Name
	if r.resource == "namespaces" {
		r.namespace = "" // a Namespace is in none, whatever the log says
	}
	if object.Subresource != "" {
		r.resource += "/" + object.Subresource
	}
	return r
}
