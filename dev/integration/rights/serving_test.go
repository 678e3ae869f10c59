package rights_test

import (
	"context"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// scraper is a ServiceAccount default/scraper that may read metrics.
const scraper = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: scraper
rules:
- nonResourceURLs: [/metrics]
  verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: scraper
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: scraper
subjects:
- kind: ServiceAccount
  name: scraper
  namespace: default
`

// servingSteps make the manager ask the API server about the clients of its secure port.
func servingSteps() []step {
	return []step{{"requests to the secure port are authenticated and authorized", func(t *testing.T, s *scenario) {
		must.NoError(t, s.cluster.Apply(t.Context(), []byte(scraper)))
		kubeconfig, err := s.cluster.ServiceAccountKubeconfig(t.Context(), metav1.NamespaceDefault, "scraper")
		must.NoError(t, err)
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		must.NoError(t, err)
		for _, replica := range s.replicas {
			for token, want := range map[string]int{
				"": http.StatusForbidden, "not.a.token": http.StatusUnauthorized, config.BearerToken: http.StatusOK,
			} {
				poll.Until(t, "/metrics is answered as it should be", func(ctx context.Context) error {
					return replica.answers(ctx, "/metrics", token, want)
				})
			}
		}
	}}}
}
