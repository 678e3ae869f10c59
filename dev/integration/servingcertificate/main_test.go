// Package servingcertificate_test tests the controller of serving certificates against a real control plane, whose kube-controller-manager
// signs, under the rights that Mooring ships for it.
package servingcertificate_test

import (
	"context"
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
)

// The control plane is shared: the tests run one after the other, each with nodes, a cloud and a manager of its own.
var (
	cluster *localcluster.Cluster
	admin   *kubernetes.Clientset
)

// anyoneAsks lets those make requests whom the node authorizer does not know, so it is up to the controller to refuse them.
const anyoneAsks = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: anyone-asks}
rules: [{apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: anyone-asks}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: anyone-asks}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:authenticated"}]
`

func TestMain(m *testing.M) {
	var failed error
	code := harness.MainOn(m, "servingcertificate", localclustertest.WithControllerManager, func(started *localcluster.Cluster, administrator *kubernetes.Clientset) {
		cluster, admin = started, administrator
		for _, manifest := range [][]byte{deploy.RBAC, deploy.ServingCertificateRBAC, []byte(anyoneAsks)} {
			if failed == nil {
				failed = cluster.Apply(context.Background(), manifest)
			}
		}
	})
	if failed != nil {
		_, _ = os.Stderr.WriteString(failed.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}
