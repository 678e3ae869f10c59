package rights_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// awaitRights waits until the API server grants what a manifest binds. It learns of roles and of bindings by watches of its own, so what is
// asked for right after they were created may be refused. A role is known whole or not at all: one of its rules tells.
func (s *scenario) awaitRights(t *testing.T, rights []byte) {
	t.Helper()
	m, err := manifestOf(rights)
	must.NoError(t, err)
	for _, b := range m.bindings {
		rules, err := s.rules(t.Context(), b)
		must.NoError(t, err)
		first := grant{namespace: b.namespace, verb: rules[0].Verbs[0], group: rules[0].APIGroups[0], resource: rules[0].Resources[0]}
		if names := rules[0].ResourceNames; len(names) > 0 {
			first.name = names[0]
		}
		for _, subject := range b.subjects {
			s.awaitGrant(t, subject, first)
		}
	}
}

// rules returns those of the role of a binding, be it one of the manifest's or of the API server's.
func (s *scenario) rules(ctx context.Context, b binding) ([]rbacv1.PolicyRule, error) {
	if b.role.Kind == "Role" {
		role, err := s.admin.RbacV1().Roles(b.namespace).Get(ctx, b.role.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return role.Rules, nil
	}
	role, err := s.admin.RbacV1().ClusterRoles().Get(ctx, b.role.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return role.Rules, nil
}

// awaitGrant waits until the API server's authorizer knows of a grant.
func (s *scenario) awaitGrant(t *testing.T, subject rbacv1.Subject, g grant) {
	t.Helper()
	resource, subresource, _ := strings.Cut(g.resource, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: subject.Name,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: g.namespace, Verb: g.verb, Group: g.group, Resource: resource, Subresource: subresource, Name: g.name,
		},
	}}
	if subject.Kind == rbacv1.ServiceAccountKind {
		review.Spec.User = serviceaccount.MakeUsername(subject.Namespace, subject.Name)
	}
	poll.Until(t, subject.Name+" may "+g.String(), func(ctx context.Context) error {
		answer, err := s.admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err == nil && !answer.Status.Allowed {
			err = fmt.Errorf("it may not: %s", answer.Status.Reason)
		}
		return err
	})
}
