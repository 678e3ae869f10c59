package harness

import (
	_ "embed"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"github.com/mooring-ccm/mooring/deploy"
)

// Namespace has the ServiceAccounts of managers, and Lease is the lease there by which they elect their leader.
const (
	Namespace = metav1.NamespaceSystem
	Lease     = "cloud-controller-manager"
)

// Identity is the ServiceAccount in Namespace that a manager runs as.
type Identity struct {
	Account string
	// Rights are manifests of what it may do.
	Rights [][]byte
}

// Mooring has the rights of the shipped manifest, and Reference the rights that Kubernetes documents.
var (
	Mooring   = Identity{Account: "cloud-controller-manager", Rights: [][]byte{deploy.RBAC}}
	Reference = Identity{Account: "reference-ccm", Rights: [][]byte{referenceRights}}
)

//go:embed rbac-reference.yaml
var referenceRights []byte

// With returns the identity with further rights.
func (i Identity) With(rights ...[]byte) Identity {
	i.Rights = slices.Concat(i.Rights, rights)
	return i
}

// User is its name for the API server.
func (i Identity) User() string { return serviceaccount.MakeUsername(Namespace, i.Account) }
