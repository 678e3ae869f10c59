package ccm

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// apiServer answers enough for clients with identities of their own, and counts writes of Nodes.
func apiServer(t *testing.T, writes *int) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		response.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(request.URL.Path, "/token"):
			response.WriteHeader(http.StatusCreated)
			_, _ = response.Write([]byte(`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","spec":{"expirationSeconds":3600},` +
				`"status":{"token":"secret","expirationTimestamp":"2100-01-01T00:00:00Z"}}`))
		case strings.Contains(request.URL.Path, "/serviceaccounts/"):
			_, _ = response.Write([]byte(`{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"name":"x","namespace":"kube-system"}}`))
		case request.Method != http.MethodGet:
			*writes++
			fallthrough
		default:
			_, _ = response.Write([]byte(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"x"}}`))
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// TestFencedClients: each client of the process reads behind a closed fence, and does not write.
func TestFencedClients(t *testing.T) {
	for name, separate := range map[string]bool{"one identity": false, "identities of their own": true} {
		t.Run(name, func(t *testing.T) {
			writes, fence := 0, newFence()
			identity, err := newIdentities(apiServer(t, &writes), separate, "", fence)
			if err != nil {
				t.Fatal(err)
			}
			controllers, err := identity.clientOf("node-controller")
			if err != nil {
				t.Fatal(err)
			}
			plugins, err := identity.builder.Client("plugin")
			if err != nil {
				t.Fatal(err)
			}
			clients := map[string]kubernetes.Interface{
				"the manager's": identity.client, "its cache's": kubernetes.NewForConfigOrDie(negotiated(identity.kubeconfig)),
				"a controller's": controllers, "the plugin's": plugins,
			}
			write := func(client kubernetes.Interface) error {
				_, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{}, metav1.CreateOptions{})
				return err
			}
			for name, client := range clients {
				if err := write(client); err != nil || writes != 1 {
					t.Errorf("%s client writes %d times before the lease is lost, and returns %v", name, writes, err)
				}
				writes = 0
			}
			fence.end(errLeaseLost)
			for name, client := range clients {
				if err := write(client); !errors.Is(err, errLeaseLost) || !errors.Is(err, context.Canceled) || writes != 0 {
					t.Errorf("%s client writes %d times although the lease is lost, and returns %v", name, writes, err)
				}
				if _, err := client.CoreV1().Nodes().Get(t.Context(), "x", metav1.GetOptions{}); err != nil {
					t.Errorf("%s client cannot read: %v", name, err)
				}
			}
		})
	}
}

// TestFenceEndsContexts of whatever acts as the leader, and leaves others alone.
func TestFenceEndsContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fence := newFence()
		acting, done := fence.within(t.Context())
		defer done()
		ended, end := fence.within(t.Context())
		end()
		if err := context.Cause(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended by itself has the cause %v", err)
		}
		time.Sleep(time.Hour)
		if err := fence.closed(); err != nil || acting.Err() != nil {
			t.Errorf("without leader election the fence is closed: %v, %v", err, acting.Err())
		}
		fence.end(errMigrationLost)
		synctest.Wait()
		if err := context.Cause(acting); !errors.Is(err, errMigrationLost) {
			t.Errorf("the context's cause is %v", err)
		}
	})
}
