package reconnect_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// TestWatchesComeBackAfterAnOutage runs client-go's own informers through outages of all kinds. Each informer hears of a node
// within 5 s of the API server's return, however long that was away.
func TestWatchesComeBackAfterAnOutage(t *testing.T) {
	const informersOfAProcess = 20
	kinds := map[string]func(*http.Request) (*http.Response, error){
		"connections are refused":             refused,
		"a load balancer without an upstream": answering(http.StatusServiceUnavailable),
	}
	for kind, outage := range kinds {
		for _, away := range []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour} {
			t.Run(kind+" for "+away.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := &apiServer{}
					caches := watching(t, server, server.waiting(t, logr.Discard()), informersOfAProcess)
					time.Sleep(time.Minute)
					server.stop(outage)
					time.Sleep(away)
					server.start("joining")
					time.Sleep(5 * time.Second)
					requireNode(t, caches, "joining")
				})
			})
		}
	}
}

// TestWatchesComeBackWhenTheAPIServerKnowsTheRoles is about the first seconds of an API server, which denies what it will allow.
func TestWatchesComeBackWhenTheAPIServerKnowsTheRoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{}
		caches := watching(t, server, server.waiting(t, logr.Discard()), 20)
		time.Sleep(time.Minute)
		server.stop(refused)
		time.Sleep(time.Minute)
		server.stop(answering(http.StatusForbidden))
		time.Sleep(8 * time.Second)
		server.start("joining")
		time.Sleep(5 * time.Second)
		requireNode(t, caches, "joining")
	})
}

// TestInformersEndDuringAnOutage, at once: a leader that loses its lease waits for those of the plugin.
func TestInformersEndDuringAnOutage(t *testing.T) {
	for _, away := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &apiServer{}
				clientset, err := kubernetes.NewForConfigAndClient(server.config(), server.waiting(t, logr.Discard()))
				if err != nil {
					t.Fatal(err)
				}
				factory := informers.NewSharedInformerFactory(clientset, 0)
				factory.Core().V1().Nodes().Informer()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				factory.StartWithContext(ctx)
				factory.WaitForCacheSync(ctx.Done())
				server.stop(refused)
				time.Sleep(away)
				cancel()
				began := time.Now()
				factory.Shutdown()
				if took := time.Since(began); took != 0 {
					t.Errorf("they ended after %s", took)
				}
			})
		})
	}
}

// watching starts informers of nodes, each as in a process of its own but with the same client, and waits until all watch.
func watching(t *testing.T, server *apiServer, client *http.Client, count int) []cache.SharedIndexInformer {
	t.Helper()
	clientset, err := kubernetes.NewForConfigAndClient(server.config(), client)
	if err != nil {
		t.Fatal(err)
	}
	caches := make([]cache.SharedIndexInformer, count)
	for i := range caches {
		factory := informers.NewSharedInformerFactory(clientset, 0)
		caches[i] = factory.Core().V1().Nodes().Informer()
		factory.StartWithContext(t.Context())
		factory.WaitForCacheSync(t.Context().Done())
		t.Cleanup(factory.Shutdown)
	}
	synctest.Wait()
	return caches
}

// requireNode fails for each informer that does not hold the node.
func requireNode(t *testing.T, caches []cache.SharedIndexInformer, name string) {
	t.Helper()
	synctest.Wait()
	late := 0
	for _, informer := range caches {
		if _, found, err := informer.GetStore().GetByKey(name); err != nil || !found {
			late++
		}
	}
	if late > 0 {
		t.Errorf("%d of %d watches are not back", late, len(caches))
	}
}
