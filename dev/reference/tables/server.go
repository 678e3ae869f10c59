package tables

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mooring-ccm/mooring/dev/simulation/apiserver"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
)

// intercept answers a request of a manager in place of the API server, if it returns a response or an error.
type intercept = func(*http.Request, apiserver.Attributes) (*http.Response, error)

// server is the API server of a case.
type server interface {
	// connect returns how users reach it, and how the manager does.
	connect(intercept) (*rest.Config, http.RoundTripper, error)
	// namespace makes a namespace.
	namespace(ctx context.Context, client kubernetes.Interface, name string) error
	// spec leaves out what the API server draws.
	spec(corev1.ServiceSpec) corev1.ServiceSpec
	// end ends the manager.
	end(*managers.Incarnation)
}

// interceptor keeps the events that a manager sends, and answers what the script says.
type interceptor struct {
	script *Script
	began  time.Time
	events eventLog
}

func (i *interceptor) answer(request *http.Request, about apiserver.Attributes) (*http.Response, error) {
	if about.Resource == "events" && about.Verb == "create" {
		return nil, i.events.keep(request)
	}
	if i.script.Intercept == nil || time.Since(i.began) > faulty {
		return nil, nil
	}
	return i.script.Intercept(request, about)
}

// memory is an API server in memory.
type memory struct{ manager *managers.Manager }

func inMemory(manager *managers.Manager) server { return memory{manager} }

func (m memory) connect(intercept intercept) (*rest.Config, http.RoundTripper, error) {
	server := apiserver.New(apiserver.Options{Intercept: func(request *http.Request, about apiserver.Attributes) (*http.Response, error) {
		if about.Identity != m.manager.Name {
			return nil, nil
		}
		return intercept(request, about)
	}})
	return server.Config("user"), server.Client(m.manager.Name), nil
}

func (memory) namespace(context.Context, kubernetes.Interface, string) error { return nil }
func (memory) spec(spec corev1.ServiceSpec) corev1.ServiceSpec               { return spec }
func (memory) end(process *managers.Incarnation)                             { process.Release() }

// Genuine is a real API server, which has one case at a time.
type Genuine struct {
	// Config is an administrator's.
	Config *rest.Config
}

// errCaseEnded is why a manager ends.
var errCaseEnded = errors.New("the case has ended")

// Play plays a script under a manager in real time, and then removes what is left of the case.
func (g Genuine) Play(ctx context.Context, script *Script, manager *managers.Manager) (Outcome, error) {
	outcome, err := play(ctx, script, manager, g)
	return outcome, errors.Join(err, g.clear(ctx))
}

func (g Genuine) connect(intercept intercept) (*rest.Config, http.RoundTripper, error) {
	base, _, err := rest.DefaultServerUrlFor(g.Config)
	if err != nil {
		return nil, nil, fmt.Errorf("find the API server: %w", err)
	}
	next, err := rest.TransportFor(g.Config)
	if err != nil {
		return nil, nil, fmt.Errorf("reach the API server: %w", err)
	}
	return rest.CopyConfig(g.Config), intercepted{next: next, base: base, intercept: intercept}, nil
}

func (g Genuine) namespace(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// spec has the same for all addresses of a family, and for all ports, that an API server draws.
func (g Genuine) spec(from corev1.ServiceSpec) corev1.ServiceSpec {
	spec := *from.DeepCopy()
	for i, text := range spec.ClusterIPs {
		if addr, err := netip.ParseAddr(text); err == nil {
			spec.ClusterIPs[i] = map[bool]string{true: "IPv4", false: "IPv6"}[addr.Is4()]
		}
	}
	if len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	for i := range spec.Ports {
		spec.Ports[i].NodePort = min(1, spec.Ports[i].NodePort)
	}
	spec.HealthCheckNodePort = min(1, spec.HealthCheckNodePort)
	return spec
}

// end does not wait: what the manager does from now on reaches neither the API server nor the cloud.
func (g Genuine) end(process *managers.Incarnation) { process.Kill(errCaseEnded) }

// clear removes all nodes and Services but the API server's own.
func (g Genuine) clear(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(g.Config)
	if err != nil {
		return fmt.Errorf("client of the API server: %w", err)
	}
	free := []byte(`{"metadata":{"finalizers":null}}`)
	err = wait.PollUntilContextTimeout(ctx, time.Second, time.Minute, true, func(ctx context.Context) (bool, error) {
		left := 0
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, nil
		}
		for _, node := range nodes.Items {
			left++
			_, _ = client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, free, metav1.PatchOptions{})
			_ = client.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{})
		}
		services, err := client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, nil
		}
		for _, service := range services.Items {
			if ownService(&service) {
				continue
			}
			left++
			_, _ = client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name, types.MergePatchType, free, metav1.PatchOptions{})
			_ = client.CoreV1().Services(service.Namespace).Delete(ctx, service.Name, metav1.DeleteOptions{})
		}
		return left == 0, nil
	})
	if err != nil {
		return fmt.Errorf("remove what is left of a case: %w", err)
	}
	return nil
}

// ownService says that a Service is the API server's own.
func ownService(service *corev1.Service) bool { return serviceKey(service) == "default/kubernetes" }

// intercepted is the way of a manager to a real API server.
type intercepted struct {
	next      http.RoundTripper
	base      *url.URL
	intercept intercept
}

var requests = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// RoundTrip implements http.RoundTripper.
func (i intercepted) RoundTrip(sent *http.Request) (*http.Response, error) {
	info, err := requests.NewRequestInfo(sent)
	if err != nil {
		return nil, fmt.Errorf("read the path %s: %w", sent.URL.Path, err)
	}
	sent = sent.Clone(sent.Context())
	answer, err := i.intercept(sent, apiserver.Attributes{
		Verb: info.Verb, Path: info.Path, Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource, Subresource: info.Subresource,
		Namespace: info.Namespace, Name: info.Name,
	})
	if answer != nil || err != nil {
		return answer, err
	}
	sent.URL.Scheme, sent.URL.Host, sent.Host = i.base.Scheme, i.base.Host, ""
	return i.next.RoundTrip(sent)
}
