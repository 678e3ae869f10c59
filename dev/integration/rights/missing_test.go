package rights_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// TestEachMissingRightIsNamed takes every right of deploy/rbac.yaml away, one at a time: the manager says at its start which one is
// missing, and that no other is.
func TestEachMissingRightIsNamed(t *testing.T) {
	eachMissingRightIsNamed(t, deploy.RBAC, func(grant) bool { return true })
}

// eachMissingRightIsNamed takes every right of a manifest away that is chosen, one at a time.
func eachMissingRightIsNamed(t *testing.T, rights []byte, chosen func(grant) bool, args ...string) {
	t.Helper()
	grants, err := grantsOf(rights)
	must.NoError(t, err)
	grants = slices.DeleteFunc(grants, func(g grant) bool { return g.given != "" }) // what is in those is Kubernetes' business
	s := newSimScenario(t, rights)
	s.offerNodeGroup(t)
	s.args = append(s.args, args...)
	for i := range grants {
		s.giveAllBut(t, accountWithout(i), grants, grants[i])
	}
	// The API server learns of rights in the order in which they were given.
	for _, g := range grants[:len(grants)-1] {
		s.awaitGrant(t, subjectOf(accountWithout(len(grants)-1)), g)
	}
	for i, missing := range grants {
		if !chosen(missing) {
			continue
		}
		t.Run(missing.String(), func(t *testing.T) {
			t.Parallel()
			account := accountWithout(i)
			kubeconfig, err := s.cluster.ServiceAccountKubeconfig(t.Context(), metav1.NamespaceSystem, account)
			must.NoError(t, err)
			started := launch(t, t, append(slices.Clone(s.args), "--kubeconfig="+kubeconfig)...)
			want := "system:serviceaccount:kube-system:" + account + " may not " + missing.String()
			poll.Until(t, "the manager says that it "+want, func(context.Context) error {
				said, err := os.ReadFile(started.LogPath())
				if err == nil && !strings.Contains(strings.ReplaceAll(string(said), `\"`, `"`), want) {
					err = fmt.Errorf("it says %s", said)
				}
				return err
			})
			said, err := os.ReadFile(started.LogPath())
			must.NoError(t, err)
			if all := regexp.MustCompile(`may not (?:[^\\"\n]|\\"[^"]*")*`).FindAllString(string(said), -1); len(slices.Compact(all)) != 1 {
				t.Errorf("it says that more is missing: %q", all)
			}
		})
	}
}

func accountWithout(i int) string { return fmt.Sprintf("without-%d", i) }

// subjectOf is a ServiceAccount in kube-system.
func subjectOf(account string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: account}
}

// giveAllBut gives all rights but one to a ServiceAccount in kube-system.
func (s *scenario) giveAllBut(t *testing.T, account string, grants []grant, missing grant) {
	t.Helper()
	rules := map[string][]rbacv1.PolicyRule{} // by namespace
	for _, g := range grants {
		if g == missing {
			continue
		}
		rule := rbacv1.PolicyRule{APIGroups: []string{g.group}, Resources: []string{g.resource}, Verbs: []string{g.verb}}
		if g.name != "" {
			rule.ResourceNames = []string{g.name}
		}
		rules[g.namespace] = append(rules[g.namespace], rule)
	}
	rbac, meta := s.admin.RbacV1(), metav1.ObjectMeta{Name: account}
	subjects := []rbacv1.Subject{subjectOf(account)}
	for namespace, rules := range rules {
		var err error
		if namespace == "" {
			_, err = rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
			must.NoError(t, err)
			_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
				ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account},
			}, metav1.CreateOptions{})
		} else {
			_, err = rbac.Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
			must.NoError(t, err)
			_, err = rbac.RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
				ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
			}, metav1.CreateOptions{})
		}
		must.NoError(t, err)
	}
}
