package metallb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/mooring-ccm/mooring/provider"
)

const (
	// DefaultNamespace is where MetalLB's manifests have its resources.
	DefaultNamespace = "metallb-system"
	// startTimeout is how long a start waits for what may be applied together with the manager: the definitions of the resources, and a pool.
	startTimeout = time.Minute
	retryRead    = time.Second
	// quietTime is how long resources have to be quiet before they are converted: several are applied one after the other.
	quietTime = 200 * time.Millisecond
	// lookInterval is how often a file of the cloud config is read again.
	lookInterval = 10 * time.Second
	// listPage is how many resources a page of the API server's list has.
	listPage = 500
)

// kinds are the resources that are read.
var kinds = []schema.GroupVersionResource{
	{Group: "metallb.io", Version: "v1beta1", Resource: "ipaddresspools"},
	{Group: "metallb.io", Version: "v1beta2", Resource: "bgppeers"},
	{Group: "metallb.io", Version: "v1beta1", Resource: "bgpadvertisements"},
	{Group: "metallb.io", Version: "v1beta1", Resource: "l2advertisements"},
	{Group: "metallb.io", Version: "v1beta1", Resource: "bfdprofiles"},
	{Group: "metallb.io", Version: "v1beta1", Resource: "communities"},
}

var (
	errNoDefinition = errors.New("MetalLB's definitions of resources (CRDs) are not all there")
	errNoPool       = errors.New("there is no IPAddressPool")
)

// Source is a cloud config that is made of MetalLB's resources in one namespace. It is a provider.ConfigObject.
type Source struct {
	*bytes.Reader
	namespace string
	client    dynamic.Interface
	// beside is the cloud config beside the resources: a file, an object of the API server, or nothing.
	beside beside

	mu sync.Mutex
	// current is what is in force.
	current choice
	// wake is told of each other choice; it has room for one.
	wake chan struct{}
	// passwords are what the Secrets say that BGPPeers name, by their names.
	passwords map[string]password
	// routers is told of each other choice, for the Secrets; it has room for one.
	routers chan struct{}
	// informers are nil before Watch.
	informers map[schema.GroupVersionResource]cache.SharedIndexInformer
}

var _ provider.ConfigObject = &Source{}

// beside is where the cloud config is that stands beside the resources.
type beside struct {
	file   string
	object provider.ConfigObject
	base   base
}

// Options are what a source is made from.
type Options struct {
	// API reaches the API server. It is required.
	API *rest.Config
	// Namespace is where the resources are. It is required.
	Namespace string
	// File is the cloud config beside the resources, and Object is it where it is an object of the API server. At most one is set.
	File   string
	Object provider.ConfigObject
}

// Open reads the resources. It waits for the API server, and a minute for definitions and a pool that are not there.
func Open(ctx context.Context, o Options) (*Source, error) {
	client, err := dynamic.NewForConfig(o.API)
	if err != nil {
		return nil, fmt.Errorf("client for MetalLB's resources: %w", err)
	}
	return open(ctx, client, o)
}

func open(ctx context.Context, client dynamic.Interface, o Options) (*Source, error) {
	besides, err := openBeside(o)
	if err != nil {
		return nil, err
	}
	s := &Source{namespace: o.Namespace, client: client, beside: besides, wake: make(chan struct{}, 1), routers: make(chan struct{}, 1)}
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	s.Reader = bytes.NewReader(s.current.content)
	s.say(ctx)
	return s, nil
}

func openBeside(o Options) (beside, error) {
	b := beside{file: o.File, object: o.Object}
	var text []byte
	var err error
	dir := "."
	switch {
	case o.Object != nil:
		text, err = io.ReadAll(o.Object)
	case o.File != "":
		if b.file, err = filepath.Abs(o.File); err != nil {
			return b, fmt.Errorf("finding the cloud config %s: %w", o.File, err)
		}
		dir = filepath.Dir(b.file)
		text, err = os.ReadFile(b.file)
	}
	if err != nil {
		return b, fmt.Errorf("reading the cloud config: %w", err)
	}
	b.base, err = readBase(text, dir)
	return b, err
}

// String names the source.
func (s *Source) String() string { return "resources of metallb.io in namespace " + s.namespace }

// Dir is what relative paths in the cloud config are relative to.
func (s *Source) Dir() string { return s.beside.base.dir }

// await reads the resources until they make a config with which the provider can begin.
func (s *Source) await(ctx context.Context) error {
	began, last := time.Now(), ""
	for {
		found, err := s.list(ctx)
		if err == nil {
			s.current = choose(s.beside.base, choice{}, found)
			switch made := s.current.config; {
			case made == nil:
				err = errors.New(s.current.refused[""])
			case len(made.Pools) == 0:
				err = fmt.Errorf("%w in namespace %s that can be used", errNoPool, s.namespace)
				for name, why := range s.current.refused {
					err = fmt.Errorf("%w; %s: %s", err, name, why)
				}
			default:
				return nil
			}
		}
		waits := errors.Is(err, errNoDefinition) || err != nil && found != nil
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case apierrors.IsForbidden(err) || waits && time.Since(began) > startTimeout:
			return err
		case err.Error() != last:
			last = err.Error()
			logr.FromContextOrDiscard(ctx).Info("Waiting for MetalLB's resources", "file", s.String(), "reason", last)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryRead):
		}
	}
}

// list reads all resources from the API server. What it returns is not nil if they could be read.
func (s *Source) list(ctx context.Context) ([]resource, error) {
	found := []resource{}
	var missing []string
	for _, kind := range kinds {
		options := metav1.ListOptions{Limit: listPage}
		for {
			page, err := s.client.Resource(kind).Namespace(s.namespace).List(ctx, options)
			if apierrors.IsNotFound(err) {
				missing = append(missing, kind.Resource+"."+kind.Version+"."+kind.Group)
				break
			}
			if err != nil {
				return nil, readError(kind, s.namespace, err)
			}
			for i := range page.Items {
				one, err := resourceOf(&page.Items[i])
				if err != nil {
					return nil, err
				}
				found = append(found, one)
			}
			if options.Continue = page.GetContinue(); options.Continue == "" {
				break
			}
		}
	}
	if len(missing) > 0 {
		return nil, definitionError(missing...)
	}
	return found, nil
}

func definitionError(missing ...string) error {
	return fmt.Errorf("%w: the API server has no %s; apply those of MetalLB 0.15 or newer, or leave out --metal-config-source", errNoDefinition, strings.Join(missing, ", "))
}

func readError(kind schema.GroupVersionResource, namespace string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("reading %s.%s in namespace %s, for which the verbs list and watch are needed: %w", kind.Resource, kind.Group, namespace, err)
	}
	return fmt.Errorf("reading %s.%s in namespace %s: %w", kind.Resource, kind.Group, namespace, err)
}

// Watch is provider.ConfigObject.
func (s *Source) Watch(ctx context.Context, changed func(content []byte, gone error)) error {
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(s.client, 0, s.namespace, nil)
	touched, failed := make(chan struct{}, 1), make(chan error, 1)
	informers := map[schema.GroupVersionResource]cache.SharedIndexInformer{}
	var registered []cache.InformerSynced
	for _, kind := range kinds {
		informer := factory.ForResource(kind).Informer()
		informers[kind] = informer
		if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, reflector *cache.Reflector, err error) {
			switch {
			case apierrors.IsNotFound(err):
				offer(failed, definitionError(kind.Resource+"."+kind.Version+"."+kind.Group))
			case apierrors.IsForbidden(err):
				offer(failed, readError(kind, s.namespace, err))
			default:
				cache.DefaultWatchErrorHandler(ctx, reflector, err)
			}
		}); err != nil {
			return fmt.Errorf("watching %s: %w", kind.Resource, err)
		}
		handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { offer(touched, struct{}{}) }, UpdateFunc: func(_, _ any) { offer(touched, struct{}{}) },
			DeleteFunc: func(any) { offer(touched, struct{}{}) },
		})
		if err != nil {
			return fmt.Errorf("watching %s: %w", kind.Resource, err)
		}
		registered = append(registered, handler.HasSynced)
	}
	s.mu.Lock()
	s.informers = informers
	s.mu.Unlock()
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	running.Go(func() { s.followBeside(ctx, touched, failed) })
	s.follow(ctx, registered, touched, failed, changed)
	return nil
}

// follow hands on what the resources make whenever they have changed and are quiet again.
func (s *Source) follow(ctx context.Context, synced []cache.InformerSynced, touched <-chan struct{}, failed <-chan error, changed func([]byte, error)) {
	quiet := time.NewTimer(quietTime)
	defer quiet.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-touched:
			quiet.Reset(quietTime)
		case err := <-failed:
			if err.Error() != said {
				said = err.Error()
				changed(nil, err)
			}
		case <-quiet.C:
			if slices.ContainsFunc(synced, func(synced cache.InformerSynced) bool { return !synced() }) {
				quiet.Reset(quietTime)
				continue
			}
			content, err := s.look(ctx)
			switch {
			case err != nil && err.Error() != said:
				said = err.Error()
				changed(nil, err)
			case err == nil && (content != nil || said != ""):
				said = ""
				s.mu.Lock()
				content = s.current.content
				s.mu.Unlock()
				changed(content, nil)
			}
		}
	}
}

// look converts what the watch shows. It returns the cloud config if it is another one.
func (s *Source) look(ctx context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []resource
	for _, kind := range kinds {
		for _, object := range s.informers[kind].GetStore().List() {
			one, ok := object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			made, err := resourceOf(one)
			if err != nil {
				return nil, err
			}
			found = append(found, made)
		}
	}
	next := choose(s.beside.base, s.current, found)
	switch {
	case next.refused[""] != "":
		return nil, errors.New(next.refused[""])
	case len(next.config.Pools) == 0:
		return nil, fmt.Errorf("%w in namespace %s that can be used; the config before stays in force", errNoPool, s.namespace)
	}
	same := bytes.Equal(next.content, s.current.content)
	s.current = next
	s.say(ctx)
	offer(s.wake, struct{}{})
	if same {
		return nil, nil
	}
	offer(s.routers, struct{}{})
	return next.content, nil
}

// say logs which resources are refused.
func (s *Source) say(ctx context.Context) {
	for name, why := range s.current.refused {
		logr.FromContextOrDiscard(ctx).Info("Rejected a resource of MetalLB", "file", name, "reason", why)
	}
}

// followBeside takes over changes of the cloud config beside the resources.
func (s *Source) followBeside(ctx context.Context, touched chan struct{}, failed chan error) {
	take := func(text []byte, err error) {
		var read base
		if err == nil {
			read, err = readBase(text, s.beside.base.dir)
		}
		if err != nil {
			offer(failed, err)
			return
		}
		s.mu.Lock()
		s.beside.base = read
		s.mu.Unlock()
		offer(touched, struct{}{})
	}
	if s.beside.object != nil {
		if err := s.beside.object.Watch(ctx, take); err != nil {
			offer(failed, err)
		}
		return
	}
	if s.beside.file == "" {
		return
	}
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	before, _ := os.ReadFile(s.beside.file)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if text, err := os.ReadFile(s.beside.file); err != nil || !bytes.Equal(text, before) {
			before = text
			take(text, err)
		}
	}
}

// offer sends to a channel with room for one, unless there is something already.
func offer[T any](to chan T, what T) {
	select {
	case to <- what:
	default:
	}
}

var resourcesDesc = prometheus.NewDesc("mooring_metal_metallb_resources",
	"Resources of MetalLB, by whether they are in force as they are: in_force, or refused, and then an older version may be.", []string{"state"}, nil)

// Describe is prometheus.Collector.
func (s *Source) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- resourcesDesc }

// Collect is prometheus.Collector.
func (s *Source) Collect(metrics chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused := len(s.current.refused)
	inForce := 0
	for name := range s.current.taken {
		if _, wrong := s.current.refused[name]; !wrong {
			inForce++
		}
	}
	for state, count := range map[string]int{"in_force": inForce, "refused": refused} {
		metrics <- prometheus.MustNewConstMetric(resourcesDesc, prometheus.GaugeValue, float64(count), state)
	}
}
