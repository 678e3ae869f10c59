package observe

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"sigs.k8s.io/yaml"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/check"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/managers"
	"github.com/mooring-ccm/mooring/deploy"
)

// rights asks the API server which of the rights that the shipped manifests give are those of the manager's ServiceAccount.
func (o *Observer) rights(ctx context.Context, seen *check.Observation) ([]check.Right, error) {
	if seen.Workloads.Unread != "" || len(seen.Own()) == 0 {
		return nil, nil // the rule says why
	}
	own := seen.Own()[0]
	needed, err := neededRights(own.Flags, o.Namespace, o.Lease)
	if err != nil {
		return nil, err
	}
	account := own.Account
	if account == "" {
		account = "default"
	}
	for i := range needed {
		right := &needed[i]
		right.Account = own.Namespace + "/" + account
		resource, subresource, _ := strings.Cut(right.Resource, "/")
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: serviceaccount.MakeUsername(own.Namespace, account), Groups: serviceaccount.MakeGroupNames(own.Namespace),
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: right.Verb, Group: right.Group, Resource: resource, Subresource: subresource, Namespace: right.Namespace, Name: right.Name,
			},
		}}
		review.Spec.Groups = append(review.Spec.Groups, "system:authenticated")
		answer, err := o.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		right.Allowed = answer.Status.Allowed
	}
	return needed, nil
}

// role is what matters of a ClusterRole or a Role.
type role struct {
	Kind     string              `json:"kind"`
	Metadata metav1.ObjectMeta   `json:"metadata"`
	Rules    []rbacv1.PolicyRule `json:"rules"`
}

// neededRights are those of the shipped manifests that a manager with these flags needs, for its own lease.
func neededRights(flags managers.Flags, namespace, lease string) ([]check.Right, error) {
	manifest := deploy.RBAC
	if flags["cloud-provider"] == "metal" {
		manifest = deploy.MetalRBAC
	}
	var rights []check.Right
	for _, document := range bytes.Split(manifest, []byte("\n---\n")) {
		var of role
		if err := yaml.Unmarshal(document, &of); err != nil {
			return nil, fmt.Errorf("reading the shipped roles: %w", err)
		}
		if of.Kind != "ClusterRole" && of.Kind != "Role" {
			continue
		}
		in := of.Metadata.Namespace
		if in == managers.DefaultNamespace {
			in = namespace
		}
		for _, rule := range of.Rules {
			rights = append(rights, rightsOf(rule, in, lease, flags)...)
		}
	}
	for _, review := range [][2]string{{"authentication.k8s.io", "tokenreviews"}, {"authorization.k8s.io", "subjectaccessreviews"}} {
		rights = append(rights, check.Right{
			Verb: "create", Group: review[0], Resource: review[1], Optional: "its secure port serves no metrics and plans",
		})
	}
	if flags.Is(separateIdentities) {
		rights = append(rights, identityRights(flags["service-account-prefix"])...)
	}
	return rights, nil
}

// identityRights are what it takes to give each controller a ServiceAccount of its own, in kube-system wherever the manager runs. Those
// with a prefix come with their roles; the others are created.
func identityRights(prefix string) []check.Right {
	var rights []check.Right
	if prefix == "" {
		rights = append(rights, check.Right{Verb: "create", Resource: "serviceaccounts", Namespace: metav1.NamespaceSystem})
	}
	for _, name := range []string{"node-controller", "route-controller", "service-controller"} {
		right := check.Right{Resource: "serviceaccounts", Namespace: metav1.NamespaceSystem, Name: prefix + name, Optional: "that controller does not start"}
		right.Verb = "get"
		rights = append(rights, right)
		right.Verb, right.Resource = "create", "serviceaccounts/token"
		rights = append(rights, right)
	}
	return rights
}

// separateIdentities is the flag by which each controller has a ServiceAccount of its own, to which Kubernetes itself binds a role.
const separateIdentities = "use-service-account-credentials"

// ofControllers reports whether a right is then the controllers' and not the manager's: everything is read by the manager, and nodes and
// Services are written by controllers.
func ofControllers(resource, verb string) bool {
	kind, _, _ := strings.Cut(resource, "/")
	return (kind == "nodes" || kind == "services") && !slices.Contains([]string{"get", "list", "watch"}, verb)
}

// unneeded reports whether a right is one to write or to read single objects for controllers of which none runs.
func unneeded(flags managers.Flags, resource, verb, name string) bool {
	nodes, lifecycle := flags.Runs("cloud-node-controller", "cloud-node"), flags.Runs("cloud-node-lifecycle-controller", "cloud-node-lifecycle")
	routes := flags.Runs("node-route-controller", "route")
	switch {
	case (resource == "nodes" || resource == "nodes/status") && verb == "update":
		return !nodes
	case resource == "nodes" && verb == "patch":
		return !nodes && !lifecycle
	case resource == "nodes" && verb == "delete", resource == "leases" && strings.HasSuffix(name, deletionLog):
		return !lifecycle
	case resource == "leases" && strings.HasSuffix(name, balancerRecord):
		return !flags.Runs("service-lb-controller", "service") || flags["load-balancer-ensure-at-start"] == "all"
	case resource == "nodes" && verb == "get", resource == "nodes/status":
		return !nodes && !lifecycle && !routes
	case resource == "services" || resource == "services/status":
		return !flags.Runs("service-lb-controller", "service") && flags["cloud-provider"] != "metal"
	default:
		return false
	}
}

// without says what does not work without a right that a manager can do without, empty for one that it needs.
func without(resource, verb, name string) string {
	switch {
	case resource == "leases" && strings.HasSuffix(name, balancerRecord):
		return "a new leader ensures all load balancers"
	case resource == "events":
		return "no events are written"
	case resource == "pods":
		return "after a crash of the leader the next one waits until the lease has expired"
	case verb == "update" && strings.HasPrefix(resource, "nodes"):
		return "nodes that join are patched instead of updated, which costs the API server half as much again"
	default:
		return ""
	}
}

// What ends the names of the Leases that record which nodes were deleted, and from what load balancers were made.
const (
	deletionLog    = "-node-deletions"
	balancerRecord = "-load-balancers"
)

func rightsOf(rule rbacv1.PolicyRule, namespace, lease string, flags managers.Flags) []check.Right {
	var rights []check.Right
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, resource := range rule.Resources {
		// In the Role, unlike the ClusterRole, these are for controllers with ServiceAccounts of their own; see identityRights.
		if namespace != "" && slices.Contains([]string{"serviceaccounts", "serviceaccounts/token", "namespaces"}, resource) {
			continue
		}
		for _, group := range rule.APIGroups {
			for _, name := range names {
				if resource == "leases" {
					name = strings.Replace(name, managers.DefaultLease, lease, 1)
				}
				for _, verb := range rule.Verbs {
					if flags.Is(separateIdentities) && ofControllers(resource, verb) || unneeded(flags, resource, verb, name) {
						continue
					}
					rights = append(rights, check.Right{
						Verb: verb, Group: group, Resource: resource, Namespace: namespace, Name: name, Optional: without(resource, verb, name),
					})
				}
			}
		}
	}
	return rights
}
