package harness

import (
	"context"
	"errors"
	"os"
	"regexp"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// sleepPage is the how-to of node groups of metal, as seen from the folders of the tests.
const sleepPage = "../../../docs/how-to/metal-sleep.md"

// GrantNodeGroupRecord gives Account the right to the record of the node groups of metal as the how-to says, until the test ends. Then the record goes,
// too.
func GrantNodeGroupRecord(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	page, err := os.ReadFile(sleepPage)
	must.NoError(t, err)
	found := regexp.MustCompile("(?s)```yaml\n(apiVersion: rbac.*?)```").FindSubmatch(page)
	if found == nil {
		t.Fatal("the how-to shows no Role")
	}
	role := &rbacv1.Role{}
	must.NoError(t, yaml.UnmarshalStrict(found[1], role))
	_, err = admin.RbacV1().Roles(role.Namespace).Create(t.Context(), role, metav1.CreateOptions{})
	must.NoError(t, err)
	_, err = admin.RbacV1().RoleBindings(role.Namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: role.Namespace, Name: Account}},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(admin.RbacV1().RoleBindings(role.Namespace).Delete(ctx, role.Name, metav1.DeleteOptions{}),
			admin.RbacV1().Roles(role.Namespace).Delete(ctx, role.Name, metav1.DeleteOptions{}),
			admin.CoordinationV1().Leases(role.Namespace).Delete(ctx, config.DefaultNodeGroupLeaseName, metav1.DeleteOptions{})); err != nil {
			t.Error(err)
		}
	})
}
