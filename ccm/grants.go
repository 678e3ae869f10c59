package ccm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// Grant is a right that is needed, in the terms of RBAC.
//
// Everything is read through the manager's cache, so the verbs get, list and watch are asked for the manager's own identity,
// all others for the controller's. The two differ with --use-service-account-credentials only.
type Grant struct {
	// Group is the API group; empty is the core group.
	Group string
	// Resource is the plural resource, with a subresource after a slash: "nodes", "nodes/status".
	Resource string
	// Namespace restricts the grant to one namespace. Empty: cluster-wide.
	Namespace string
	// Name restricts the grant to one object. Empty: all.
	Name string
	// Verbs are what is needed: "get", "patch".
	Verbs []string
	// Without says what does not work without the grant, for a grant that the start-up can do without: it is then logged.
	// Empty: the start-up ends if the grant is missing.
	Without string
}

// reads reports whether the manager's cache needs a verb.
func reads(verb string) bool { return slices.Contains([]string{"get", "list", "watch"}, verb) }

// split parts a controller's grants into what the manager's identity needs and what the controller's needs.
func split(grants []Grant) (manager, controller []Grant) {
	for _, grant := range grants {
		reading, writing := grant, grant
		reading.Verbs, writing.Verbs = nil, nil
		for _, verb := range grant.Verbs {
			if reads(verb) {
				reading.Verbs = append(reading.Verbs, verb)
			} else {
				writing.Verbs = append(writing.Verbs, verb)
			}
		}
		if len(reading.Verbs) > 0 {
			manager = append(manager, reading)
		}
		if len(writing.Verbs) > 0 {
			controller = append(controller, writing)
		}
	}
	return manager, controller
}

// missingGrant is one verb of one grant that an identity does not have.
type missingGrant struct {
	user, verb string
	grant      Grant
}

// Error reads like the API server's own message for a refused request.
func (m missingGrant) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s may not %s %s", m.user, m.verb, m.grant.Resource)
	if m.grant.Group != "" {
		fmt.Fprintf(&text, ".%s", m.grant.Group)
	}
	if m.grant.Name != "" {
		fmt.Fprintf(&text, " %q", m.grant.Name)
	}
	if m.grant.Namespace != "" {
		fmt.Fprintf(&text, " in namespace %s", m.grant.Namespace)
	}
	return text.String()
}

// missingGrants asks the API server which of the grants the client's identity lacks.
func missingGrants(ctx context.Context, client kubernetes.Interface, grants []Grant) ([]missingGrant, error) {
	if len(grants) == 0 {
		return nil, nil
	}
	user, err := whoAmI(ctx, client)
	if err != nil {
		return nil, err
	}
	var missing []missingGrant
	for _, grant := range grants {
		for _, verb := range grant.Verbs {
			allowed, err := may(ctx, client, verb, grant)
			if err != nil {
				return nil, fmt.Errorf("asking the API server whether %s may %s %s: %w", user, verb, grant.Resource, err)
			}
			if !allowed {
				missing = append(missing, missingGrant{user: user, verb: verb, grant: grant})
			}
		}
	}
	return missing, nil
}

// may asks for one verb.
func may(ctx context.Context, client kubernetes.Interface, verb string, grant Grant) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	resource, subresource, _ := strings.Cut(grant.Resource, "/")
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: grant.Group, Resource: resource, Subresource: subresource,
			Namespace: grant.Namespace, Name: grant.Name, Verb: verb,
		},
	}}
	answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

// whoAmI returns the name under which the API server knows the client.
func whoAmI(ctx context.Context, client kubernetes.Interface) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) { // before Kubernetes 1.28
		return "this process", nil
	}
	if err != nil {
		return "", fmt.Errorf("asking the API server who this process is to it: %w", err)
	}
	return cmp.Or(review.Status.UserInfo.Username, "(no name)"), nil
}
