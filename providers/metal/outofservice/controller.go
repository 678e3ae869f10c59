package outofservice

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/mooring-ccm/mooring/internal/required"
	"github.com/mooring-ccm/mooring/providers/metal/nodepatch"
	metalpower "github.com/mooring-ccm/mooring/providers/metal/power"
)

// period is the longest time between two passes: states of power grow old without an event.
const period = 5 * time.Second

// Power knows the power states of nodes' machines.
type Power interface {
	// Observe returns what is known of the machine of a node. What is not known, also because there is no such machine, is unknown.
	Observe(node *v1.Node) metalpower.Observation
	// Subscribe has a function called after changes, until cancel is called.
	Subscribe(changed func()) (cancel func())
}

// Options are what the controller works with. All but Registerer are required.
type Options struct {
	// Client writes nodes.
	Client corev1client.NodesGetter
	// Nodes delivers them. Its factory is started by the caller.
	Nodes coreinformers.NodeInformer
	// Recorder records events on nodes.
	Recorder record.EventRecorder
	// Power knows the power states.
	Power Power
	// Settings returns what the operator decides, as it is now.
	Settings func() Settings
	// Registerer takes the metrics. Nil: they are not exported.
	Registerer prometheus.Registerer
}

// Controller puts the taint on nodes and takes it off. It is the leader's.
type Controller struct {
	options Options
	writer  writer
	reports reporter
	metrics metrics
	wake    chan struct{}
}

type metrics struct {
	writes   *prometheus.CounterVec
	failures *prometheus.CounterVec
	nodes    prometheus.Gauge
}

// New returns a controller that has not started yet. All options that are missing are named in one error.
func New(options Options) (*Controller, error) {
	if err := required.Check("out-of-service controller",
		required.Option{Name: "Client", Missing: options.Client == nil}, required.Option{Name: "Nodes", Missing: options.Nodes == nil},
		required.Option{Name: "Recorder", Missing: options.Recorder == nil}, required.Option{Name: "Power", Missing: options.Power == nil},
		required.Option{Name: "Settings", Missing: options.Settings == nil},
	); err != nil {
		return nil, err
	}
	factory := promauto.With(options.Registerer)
	return &Controller{
		options: options, wake: make(chan struct{}, 1),
		writer:  writer{nodes: options.Client, recorder: options.Recorder},
		reports: reporter{recorder: options.Recorder, last: map[types.UID]string{}},
		metrics: metrics{
			writes: factory.NewCounterVec(prometheus.CounterOpts{
				Name: "mooring_metal_out_of_service_writes_total",
				Help: "Changes of the taint node.kubernetes.io/out-of-service on nodes, by operation: taint or untaint.",
			}, []string{"operation"}),
			failures: factory.NewCounterVec(prometheus.CounterOpts{
				Name: "mooring_metal_out_of_service_write_failures_total",
				Help: "Changes of that taint that the API server refused or did not answer, by operation: taint or untaint.",
			}, []string{"operation"}),
			nodes: factory.NewGauge(prometheus.GaugeOpts{
				Name: "mooring_metal_out_of_service_nodes",
				Help: "Nodes that have the taint node.kubernetes.io/out-of-service by this provider.",
			}),
		},
	}, nil
}

// Run looks after nodes until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	informer := c.options.Nodes.Informer()
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { c.poke() },
		UpdateFunc: func(_, node any) { c.pokeFor(node) },
	})
	if err != nil {
		return fmt.Errorf("following nodes: %w", err)
	}
	defer func() { _ = informer.RemoveEventHandler(registration) }()
	defer c.options.Power.Subscribe(c.poke)()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		c.pass(ctx)
		select {
		case <-tick.C:
		case <-c.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// pokeFor has a pass follow an update of a node that could matter: most are heartbeats.
func (c *Controller) pokeFor(updated any) {
	if node, ok := updated.(*v1.Node); ok && needsLook(node) {
		c.poke()
	}
}

func (c *Controller) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// pass looks at all nodes once. What fails is tried again by the next.
func (c *Controller) pass(ctx context.Context) {
	log := logr.FromContextOrDiscard(ctx)
	nodes, err := c.options.Nodes.Lister().List(labels.Everything())
	if err != nil {
		log.Error(err, "Listing nodes")
		return
	}
	settings, now := c.options.Settings(), time.Now()
	var known []facts
	marked := 0
	for _, node := range nodes {
		observed := c.options.Power.Observe(node)
		f := factsOf(node, observed.TrustedPower(), observed.Since)
		c.reports.report(node, observed, f, settings, now)
		if !needsLook(node) {
			continue
		}
		known = append(known, f)
		if f.marked && f.outOfService() {
			marked++
		}
	}
	c.reports.forget(nodes)
	c.metrics.nodes.Set(float64(marked))
	for _, action := range plan(known, settings, now) {
		err := c.writer.apply(ctx, action)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, nodepatch.ErrOutdated):
		case err != nil:
			c.metrics.failures.WithLabelValues(action.String()).Inc()
			log.Error(err, "The taint of a node could not be changed; trying again", "node", action.node.Name)
		default:
			c.metrics.writes.WithLabelValues(action.String()).Inc()
			log.Info("The taint node.kubernetes.io/out-of-service was changed", "node", action.node.Name, "operation", action.String())
		}
	}
}
