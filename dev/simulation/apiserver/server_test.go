package apiserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/dev/must"
)

// clientset returns a client of the server, which speaks protobuf if asked.
func clientset(t testing.TB, server *Server, identity, contentType string) *kubernetes.Clientset {
	t.Helper()
	config := server.Config(identity)
	config.QPS, config.ContentType = -1, contentType
	made, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func loadBalancer(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

func TestInformersFollow(t *testing.T) {
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		t.Run(contentType, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { informersFollow(t, contentType) })
		})
	}
}

func informersFollow(t *testing.T, contentType string) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lists := 0
	server := New(Options{Audit: func(r Record) {
		if r.Identity == "informer" && r.Verb == "list" {
			lists++
		}
	}})
	writer, reader := clientset(t, server, "writer", contentType), clientset(t, server, "informer", contentType)
	must.Value(writer.CoreV1().Nodes().Create(ctx, node("one"), metav1.CreateOptions{}))(t)
	factory := informers.NewSharedInformerFactory(reader, 0)
	nodes := factory.Core().V1().Nodes()
	var seen []string
	must.Value(nodes.Informer().AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { seen = append(seen, "add "+object.(*corev1.Node).Name) },
		UpdateFunc: func(_, object any) { seen = append(seen, "update "+object.(*corev1.Node).Spec.ProviderID) },
		DeleteFunc: func(object any) { seen = append(seen, "delete "+object.(*corev1.Node).Name) },
	}))(t)
	factory.Start(ctx.Done())
	synctest.Wait()
	must.Value(writer.CoreV1().Nodes().Create(ctx, node("two"), metav1.CreateOptions{}))(t)
	synctest.Wait()
	must.Value(writer.CoreV1().Nodes().Patch(ctx, "two", types.MergePatchType, []byte(`{"spec":{"providerID":"x://2"}}`), metav1.PatchOptions{}))(t)
	synctest.Wait()
	server.CutWatches(nil)
	must.NoError(t, writer.CoreV1().Nodes().Delete(ctx, "one", metav1.DeleteOptions{}))
	time.Sleep(time.Minute)
	if got, want := strings.Join(seen, ", "), "add one, add two, update x://2, delete one"; got != want {
		t.Errorf("the informer saw %q, want %q", got, want)
	}
	if lists != 0 {
		t.Errorf("the informer listed %d times, though it can begin by a watch and go on after a cut", lists)
	}
	cancel()
	factory.Shutdown()
}

func TestWatchExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := New(Options{})
		api := clientset(t, server, "test", "")
		old := must.Value(api.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}))(t).ResourceVersion
		must.Value(api.CoreV1().Nodes().Create(t.Context(), node("one"), metav1.CreateOptions{}))(t)
		server.Compact()
		watching := must.Value(api.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{ResourceVersion: old}))(t)
		defer watching.Stop()
		event := <-watching.ResultChan()
		if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) {
			t.Errorf("a watch of a version that was compacted begins with %v: %v", event.Type, err)
		}
	})
}

func TestPagesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := New(Options{CompactAfter: time.Minute})
		api := clientset(t, server, "test", "")
		for _, name := range []string{"one", "two", "three"} {
			must.Value(api.CoreV1().Nodes().Create(t.Context(), node(name), metav1.CreateOptions{}))(t)
		}
		page := must.Value(api.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{Limit: 1}))(t)
		must.NoError(t, api.CoreV1().Nodes().Delete(t.Context(), "two", metav1.DeleteOptions{}))
		next := must.Value(api.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{Continue: page.Continue}))(t)
		if len(next.Items) != 2 {
			t.Errorf("the second page has %d nodes, want those of the first page's version", len(next.Items))
		}
		time.Sleep(2 * time.Minute)
		must.Value(api.CoreV1().Nodes().Create(t.Context(), node("four"), metav1.CreateOptions{}))(t)
		_, err := api.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{Continue: page.Continue})
		if !apierrors.IsResourceExpired(err) {
			t.Fatalf("an old page answers %v", err)
		}
		status := statusOf(err)
		rest := must.Value(api.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{Continue: status.Continue}))(t)
		if len(rest.Items) != 1 || rest.Items[0].Name != "three" {
			t.Errorf("the token of the answer goes on with %v", rest.Items)
		}
	})
}

func TestDrawsDoNotDependOnOrder(t *testing.T) {
	uids := func(names ...string) map[string]types.UID {
		api := clientset(t, New(Options{Seed: 7}), "test", "")
		found := map[string]types.UID{}
		for _, name := range names {
			found[name] = must.Value(api.CoreV1().Nodes().Create(t.Context(), node(name), metav1.CreateOptions{}))(t).UID
		}
		return found
	}
	one, other := uids("a", "b"), uids("b", "a")
	if one["a"] != other["a"] || one["b"] != other["b"] || one["a"] == one["b"] {
		t.Errorf("the UIDs are %v and %v", one, other)
	}
}

func TestBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := New(Options{})
		api := clientset(t, server, "test", "")
		watching := must.Value(api.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{
			AllowWatchBookmarks: true, SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		}))(t)
		defer watching.Stop()
		first := (<-watching.ResultChan()).Object.(*corev1.Node)
		if first.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
			t.Errorf("the first bookmark does not end the initial events: %v", first)
		}
		start := time.Now()
		must.Value(api.CoreV1().Services("default").Create(t.Context(), loadBalancer("web"), metav1.CreateOptions{}))(t)
		second := (<-watching.ResultChan()).Object.(*corev1.Node)
		if second.ResourceVersion == first.ResourceVersion || time.Since(start) != bookmarkInterval {
			t.Errorf("after %v the version of the bookmark is %s, it was %s", time.Since(start), second.ResourceVersion, first.ResourceVersion)
		}
	})
}

func TestControllerRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		server := New(Options{})
		config := server.Config("manager")
		config.QPS = -1
		httpClient := &http.Client{Transport: server.Client("manager")}
		api := must.Value(client.New(config, client.Options{HTTPClient: httpClient, Scheme: scheme.Scheme}))(t)
		cached := must.Value(cache.New(config, cache.Options{HTTPClient: httpClient, Scheme: scheme.Scheme}))(t)
		must.Value(cached.GetInformer(ctx, &corev1.Service{}))(t)
		ended := make(chan error, 1)
		go func() { ended <- cached.Start(ctx) }()
		if !cached.WaitForCacheSync(ctx) {
			t.Fatal("the cache does not sync")
		}
		service := loadBalancer("web")
		must.NoError(t, api.Create(ctx, service))
		before := service.DeepCopy()
		service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
		must.NoError(t, api.Status().Patch(ctx, service, client.MergeFrom(before)))
		synctest.Wait()
		var read corev1.Service
		must.NoError(t, cached.Get(ctx, client.ObjectKeyFromObject(service), &read))
		if len(read.Status.LoadBalancer.Ingress) != 1 || read.Spec.ClusterIP == "" || read.Spec.Ports[0].NodePort == 0 {
			t.Errorf("the cache has %v, %v", read.Spec, read.Status)
		}
		if err := api.Update(ctx, before); !apierrors.IsConflict(err) {
			t.Errorf("an update of an old version answers %v", err)
		}
		var names metav1.PartialObjectMetadataList
		names.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceList"))
		must.NoError(t, api.List(ctx, &names))
		if len(names.Items) != 1 || names.Items[0].UID != service.UID {
			t.Errorf("the list of metadata has %v", names.Items)
		}
		cancel()
		must.NoError(t, <-ended)
	})
}

func TestLeaderElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := New(Options{})
		first, second := elect(t, server, "first"), elect(t, server, "second")
		time.Sleep(10 * time.Second)
		if len(first.led) != 1 || len(second.led) != 0 {
			t.Fatalf("the first led %d times and the second %d times", len(first.led), len(second.led))
		}
		first.cancel()
		start := time.Now()
		<-second.led
		if waited := time.Since(start); waited > 25*time.Second { // the lease, and two pauses of up to 4.4 s
			t.Errorf("the second led after %v", waited)
		}
		second.cancel()
		synctest.Wait()
	})
}

type candidate struct {
	led    chan struct{}
	cancel context.CancelFunc
}

func elect(t *testing.T, server *Server, name string) candidate {
	ctx, cancel := context.WithCancel(t.Context())
	made := candidate{led: make(chan struct{}, 1), cancel: cancel}
	api := clientset(t, server, name, "")
	lock := must.Value(resourcelock.New(resourcelock.LeasesResourceLock, "kube-system", "manager", api.CoreV1(), api.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: name}))(t)
	elector := must.Value(leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { made.led <- struct{}{} }, OnStoppedLeading: func() {}},
	}))(t)
	go elector.Run(ctx)
	synctest.Wait()
	return made
}

func TestFaultsAndAudit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes []string
		fail, lose := false, false
		server := New(Options{
			Intercept: func(_ *http.Request, about Attributes) (*http.Response, error) {
				if fail && about.Verb == "get" {
					return Text(http.StatusNotFound, "text/html", "<html>no such page</html>"), nil
				}
				return nil, nil
			},
			Answered: func(_ *http.Request, about Attributes, _ *http.Response) (*http.Response, error) {
				if lose && about.Verb == "create" {
					return nil, io.ErrUnexpectedEOF
				}
				return nil, nil
			},
			Audit: func(r Record) {
				if r.Changed {
					writes = append(writes, r.Identity+" "+r.Verb+" "+r.Name)
				}
			},
			Authorize: func(identity string, about authorizationv1.ResourceAttributes) bool {
				return identity == "admin" || about.Verb != "delete"
			},
		})
		api := clientset(t, server, "user", "")
		must.Value(api.CoreV1().Nodes().Create(t.Context(), node("one"), metav1.CreateOptions{}))(t)
		fail, lose = true, true
		if _, err := api.CoreV1().Nodes().Get(t.Context(), "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
			t.Errorf("the page of a proxy answers %v", err)
		}
		if _, err := api.CoreV1().Nodes().Create(t.Context(), node("two"), metav1.CreateOptions{}); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a lost answer is %v", err)
		}
		if err := api.CoreV1().Nodes().Delete(t.Context(), "one", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("a deletion without the right answers %v", err)
		}
		if got, want := strings.Join(writes, ", "), "user create one, user create two"; got != want {
			t.Errorf("the audit has %q, want %q", got, want)
		}
	})
}

func TestDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := clientset(t, New(Options{}), "test", "")
		_, lists, err := api.Discovery().ServerGroupsAndResources()
		must.NoError(t, err)
		names := map[string]bool{}
		for _, list := range lists {
			for _, resource := range list.APIResources {
				names[list.GroupVersion+"/"+resource.Name] = true
			}
		}
		for _, name := range []string{"v1/nodes", "v1/services/status", "coordination.k8s.io/v1/leases", "certificates.k8s.io/v1/certificatesigningrequests/approval"} {
			if !names[name] {
				t.Errorf("discovery does not name %s", name)
			}
		}
		if got := must.Value(api.Discovery().ServerVersion())(t).Minor; got != "36" {
			t.Errorf("the version is %s", got)
		}
	})
}

func BenchmarkPatch(b *testing.B) {
	for name, options := range map[string]Options{"managed fields": {}, "without": {WithoutManagedFields: true}} {
		b.Run(name, func(b *testing.B) {
			server := New(options)
			api := clientset(b, server, "test", runtime.ContentTypeProtobuf)
			if _, err := api.CoreV1().Nodes().Create(b.Context(), node("one"), metav1.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
			for i := 0; b.Loop(); i++ {
				patch := []byte(`{"metadata":{"labels":{"n":"` + string(rune('a'+i%26)) + `"}}}`)
				if _, err := api.CoreV1().Nodes().Patch(b.Context(), "one", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
