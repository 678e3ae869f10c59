package vendortool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/orphans"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	// pageSize is how many objects a page of the API server's lists has.
	pageSize = 500
	// removalTimeout is how long the cloud may take to remove one thing.
	removalTimeout = 10 * time.Minute
	// minPause is the least pause before a call is repeated, whatever the cloud asks for.
	minPause = time.Second
)

// search is a cloud and a cluster whose orphans are looked for.
type search struct {
	cloud       cloudprovider.Interface
	client      kubernetes.Interface
	clusterName string
	// ranges are the cluster's own; without any, no route is proven.
	ranges []netip.Prefix
}

// search builds the provider, which runs until stop is closed, and a client of the cluster.
func (f *orphansFlags) search(ranges []netip.Prefix, stop <-chan struct{}) (*search, error) {
	config, err := f.account.kubeconfig.Config()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the cluster: %w", err)
	}
	cloud, err := f.account.start(f.account.config, stop)
	if err != nil {
		return nil, err
	}
	return &search{cloud: cloud, client: client, clusterName: f.clusterName, ranges: ranges}, nil
}

// look lists the cloud and then the API server, and compares them.
func (s *search) look(ctx context.Context, progress io.Writer) (findings, error) {
	kubernetes, err := s.client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return findings{}, fmt.Errorf("reading the Service default/kubernetes, whose UID is the cluster's: %w", err)
	}
	found := findings{Cluster: s.clusterName, ClusterUID: string(kubernetes.UID)}
	ctx = provider.WithClusterUID(ctx, kubernetes.UID)
	done := cli.Progress(progress, "Listing the cloud's load balancers")
	balancers, err := s.balancers(ctx, &found)
	done()
	if err != nil {
		return findings{}, err
	}
	done = cli.Progress(progress, "Listing the cloud's routes")
	routes, err := s.routes(ctx, &found)
	done()
	if err != nil {
		return findings{}, err
	}
	defer cli.Progress(progress, "Listing the cluster's Services and nodes")()
	live, err := s.services(ctx)
	if err != nil {
		return findings{}, err
	}
	nodes, err := s.nodes(ctx)
	if err != nil {
		return findings{}, err
	}
	found.LoadBalancers = balancersFound(orphans.Balancers(balancers, live, kubernetes.UID))
	found.Routes = routesFound(orphans.Routes(routes, nodes, s.ranges))
	return found, nil
}

func (s *search) balancers(ctx context.Context, found *findings) ([]provider.LoadBalancer, error) {
	list := provider.CapabilitiesOf(s.cloud).ListLoadBalancers
	if list == nil {
		found.NotLooked = append(found.NotLooked, "load balancers: the provider does not list them")
		return nil, nil
	}
	listed, err := list(ctx, s.clusterName)
	if err != nil {
		return nil, fmt.Errorf("listing the load balancers of cluster %q in the cloud: %w", s.clusterName, err)
	}
	return listed, nil
}

func (s *search) routes(ctx context.Context, found *findings) ([]*cloudprovider.Route, error) {
	routes, offered := s.cloud.Routes()
	if !offered || routes == nil {
		found.NotLooked = append(found.NotLooked, "routes: the provider has none")
		return nil, nil
	}
	listed, err := routes.ListRoutes(ctx, s.clusterName)
	if err != nil {
		return nil, fmt.Errorf("listing the routes of cluster %q in the cloud: %w", s.clusterName, err)
	}
	return listed, nil
}

// services returns the UIDs of all Services.
func (s *search) services(ctx context.Context) (map[types.UID]bool, error) {
	live := map[types.UID]bool{}
	for options := (metav1.ListOptions{Limit: pageSize}); ; {
		page, err := s.client.CoreV1().Services(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("listing Services: %w", err)
		}
		for i := range page.Items {
			live[page.Items[i].UID] = true
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return live, nil
		}
	}
}

func (s *search) nodes(ctx context.Context) ([]corev1.Node, error) {
	var nodes []corev1.Node
	for options := (metav1.ListOptions{Limit: pageSize}); ; {
		page, err := s.client.CoreV1().Nodes().List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("listing nodes: %w", err)
		}
		nodes = append(nodes, page.Items...)
		if options.Continue = page.Continue; options.Continue == "" {
			return nodes, nil
		}
	}
}

// remove removes what two looks have found to be this cluster's, one after the other, and says so of each.
func (s *search) remove(ctx context.Context, shown, again findings, out io.Writer) error {
	ctx = provider.WithClusterUID(ctx, types.UID(again.ClusterUID))
	var errs []error
	step := func(what string, remove func(context.Context) error) {
		if ctx.Err() != nil {
			return
		}
		done := cli.Progress(out, "Removing "+what)
		limited, cancel := context.WithTimeout(ctx, removalTimeout)
		err := remove(limited)
		cancel()
		done()
		if err != nil {
			errs = append(errs, fmt.Errorf("removing %s: %w", what, err))
			return
		}
		_, _ = fmt.Fprintf(out, "Removed %s\n", what)
	}
	for _, one := range again.LoadBalancers {
		if shown.ClusterUID == again.ClusterUID && slices.ContainsFunc(shown.LoadBalancers, one.stillProven) {
			step(fmt.Sprintf("load balancer %q of Service %q", one.Name, one.Service), func(ctx context.Context) error {
				return s.removeBalancer(ctx, one.found)
			})
		}
	}
	for _, one := range again.Routes {
		if shown.ClusterUID == again.ClusterUID && slices.ContainsFunc(shown.Routes, one.stillProven) {
			step(fmt.Sprintf("route %q to %q", one.Name, one.Destination), func(ctx context.Context) error {
				return s.removeRoute(ctx, one.found.Route)
			})
		}
	}
	return errors.Join(append(errs, ctx.Err())...)
}

func (s *search) removeBalancer(ctx context.Context, one orphans.Balancer) error {
	balancers, offered := s.cloud.LoadBalancer()
	if !offered || balancers == nil {
		return errors.New("the provider lists load balancers, but has none")
	}
	return retried(ctx, func(ctx context.Context) error {
		return balancers.EnsureLoadBalancerDeleted(ctx, s.clusterName, one.AsService())
	})
}

// retried repeats a call for as long as its error is an api.RetryError of k8s.io/cloud-provider. A cloud that has begun to delete something
// returns such an error.
func retried(ctx context.Context, call func(context.Context) error) error {
	for {
		err := call(ctx)
		var retry *cloudproviderapi.RetryError
		if !errors.As(err, &retry) {
			return err
		}
		select {
		case <-time.After(max(minPause, retry.RetryAfter())):
		case <-ctx.Done():
			return fmt.Errorf("still when the time for it was over: %w", err)
		}
	}
}

// removeRoute removes a route by the call that the provider has for it.
func (s *search) removeRoute(ctx context.Context, one *cloudprovider.Route) error {
	if change := provider.CapabilitiesOf(s.cloud).ChangeRoutes; change != nil {
		results, err := change(ctx, s.clusterName, []provider.RouteChange{{Old: one}})
		return errors.Join(append(results, err)...)
	}
	routes, offered := s.cloud.Routes()
	if !offered || routes == nil {
		return errors.New("the provider has no routes")
	}
	return routes.DeleteRoute(ctx, s.clusterName, one)
}
