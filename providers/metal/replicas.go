package metal

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce"
	"github.com/mooring-ccm/mooring/providers/metal/lb/bgp"
	"github.com/mooring-ccm/mooring/providers/metal/lb/health"
	"github.com/mooring-ccm/mooring/providers/metal/lb/layer2"
	"github.com/mooring-ccm/mooring/providers/metal/self"
)

// runOnEveryReplica follows the config and announces, until ctx ends.
func (c *Cloud) runOnEveryReplica(ctx context.Context, replica provider.Replica) error {
	config.Register(c.source, replica.Registerer)
	if err := replica.Registerer.Register(c.registry); err != nil {
		return fmt.Errorf("registering the metrics of machines and addresses: %w", err)
	}
	c.mu.Lock()
	c.client = replica.Client
	c.mu.Unlock()
	running, err := c.assemble(ctx, replica)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	run := func(what string, part func(context.Context) error) {
		group.Go(func() {
			if err := part(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", what, err))
			}
		})
	}
	report := replica.ReportConfig
	if report == nil {
		report = func(error) {}
	}
	changed := make(chan struct{}, 1)
	defer c.source.Subscribe(func(*config.CloudConfig) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})()
	run("following the cloud config", func(ctx context.Context) error {
		return c.source.Run(ctx, func(refused error) {
			if refused != nil { // what is taken is reported when it has been taken over
				report(refused)
			}
		})
	})
	run("taking over changes of the cloud config", func(ctx context.Context) error { return c.follow(ctx, running, changed, report) })
	if running != nil {
		replica.Informers.Start(ctx.Done())
		defer replica.Informers.Shutdown()
		c.runParts(running, run)
	}
	group.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// runParts starts what announces.
func (c *Cloud) runParts(running *parts, run func(string, func(context.Context) error)) {
	run("announcing", running.announcer.Run)
	if c.resources != nil {
		run("reading passwords", func(ctx context.Context) error {
			c.resources.FollowPasswords(ctx, running.speaker.LookNow)
			return nil
		})
	}
	run("speaking BGP", func(ctx context.Context) error {
		section := c.awaitBGP(ctx)
		if section == nil || section.Mode == config.GracefulRestart && !c.awaitLead(ctx) {
			return nil // routers would take two that announce for one that restarts
		}
		return running.speaker.Run(ctx)
	})
	// A replica that has led goes on answering for as long as its process lives: every replica answers with the same nodes' addresses, and
	// one that is cut off from the API server may be the only one left. It sends answers without a question only after changes.
	run("answering on the segment", func(ctx context.Context) error {
		if c.awaitLead(ctx) {
			defer context.AfterFunc(c.leadership, running.responder.StopRepeating)()
			running.responder.Run(ctx)
		}
		return nil
	})
}

// awaitBGP returns the section for BGP once the config has one, or nil when ctx ends before.
func (c *Cloud) awaitBGP(ctx context.Context) *config.BGP {
	changed := make(chan struct{}, 1)
	defer c.source.Subscribe(func(*config.CloudConfig) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})()
	for {
		if section := c.source.Current().BGP; section != nil {
			return section
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// awaitLead returns once this replica leads, or false when ctx ends before.
func (c *Cloud) awaitLead(ctx context.Context) bool {
	select {
	case <-c.led:
		return true
	case <-ctx.Done():
		return false
	}
}

// assemble makes what announces; nil if this process announces nothing.
func (c *Cloud) assemble(ctx context.Context, replica provider.Replica) (*parts, error) {
	if !c.mayAnnounce() {
		return nil, nil
	}
	settings := c.source.Current()
	made := &parts{responder: layer2.New(settings.L2, replica.Registerer)}
	own := &ownNode{nodes: replica.Informers.Core().V1().Nodes(), observe: self.Observe}
	machine := bgp.Machine{NodeLabels: own.labels}
	if c.resources != nil {
		c.resources.ReadPasswords(ctx)
		machine.ReadFile = c.resources.ReadFile
	}
	var err error
	if made.speaker, err = bgp.New(bgp.Options{Config: sectionOf(settings), Registerer: replica.Registerer, Machine: machine}); err != nil {
		return nil, fmt.Errorf("bgp: %w", err)
	}
	if err := own.onChange(made.speaker.LookNow); err != nil {
		return nil, err
	}
	announcement := settings.Announcement.WithDefaults()
	made.announcer, err = announce.New(announce.Options{
		Informers: replica.Informers, Prober: health.New(announcement.Health, replica.Registerer), Sinks: map[string]announce.Sink{"bgp": made.speaker, "l2": made.responder},
		Config: announcement, Advertising: announce.NewAdvertising(settings.BGP, settings.L2 != nil), PoolOf: c.poolOf,
		PoolOverlap: c.poolOverlap, OwnNode: own.name, ClusterCIDRs: replica.ClusterCIDRs, OwnsNode: c.ownsNode(), Registerer: replica.Registerer,
		Networks: made.responder.Networks, NetworksChanged: made.responder.NetworksChanged(), L2: func() *config.L2 { return c.source.Current().L2 },
	})
	if err != nil {
		return nil, fmt.Errorf("announcement: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parts = made
	return made, nil
}

// sectionOf returns the section for BGP, empty where there is none.
func sectionOf(settings *config.CloudConfig) config.BGP {
	if settings.BGP == nil {
		return config.BGP{}
	}
	return *settings.BGP
}

// poolOf returns the name of the pool of an address, by the config in force.
func (c *Cloud) poolOf(addr netip.Addr) string { return c.allocator.Pools().Of(addr) }

// poolOverlap returns the name of a pool with addresses in a range, by the config in force.
func (c *Cloud) poolOverlap(cidr netip.Prefix) string { return c.allocator.Pools().Overlap(cidr) }

// ownsNode says which nodes are announced: those of machines of the inventory, or all where there is none.
func (c *Cloud) ownsNode() func(*corev1.Node) bool {
	if !c.began.Inventory.Enabled() {
		return nil
	}
	return func(node *corev1.Node) bool {
		_, err := c.instances.index.Load().Find(node)
		return err == nil
	}
}

// reconfigureTimeout bounds how long sessions may take to change.
const reconfigureTimeout = 30 * time.Second

// follow puts each change of the config in force, and reports what came of it.
func (c *Cloud) follow(ctx context.Context, running *parts, changed <-chan struct{}, report func(error)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		settings := c.source.Current()
		err := c.take(ctx, running, settings)
		report(err)
		if err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "A part of the new cloud config is not in force")
			continue
		}
		logr.FromContextOrDiscard(ctx).Info("The new cloud config is in force")
	}
}

// take puts a config in force. What cannot be is in the error.
func (c *Cloud) take(ctx context.Context, running *parts, settings *config.CloudConfig) error {
	if err := c.allocator.SetPools(settings.Pools); err != nil {
		return fmt.Errorf("pools: %w", err)
	}
	errs := []error{c.onlyAtStart(settings)}
	if running == nil {
		return errors.Join(errs...)
	}
	advertising := announce.NewAdvertising(settings.BGP, settings.L2 != nil)
	running.announcer.Reconfigure(settings.Announcement.WithDefaults(), advertising, c.poolOf)
	running.responder.Reconfigure(settings.L2)
	ctx, cancel := context.WithTimeout(ctx, reconfigureTimeout)
	defer cancel()
	errs = append(errs, running.speaker.Reconfigure(ctx, sectionOf(settings)))
	return errors.Join(errs...)
}

// onlyAtStart names the parts that the config turns on or off: the controllers were built without them, or with them.
func (c *Cloud) onlyAtStart(settings *config.CloudConfig) error {
	var errs []error
	for _, part := range []struct {
		name     string
		had, has bool
	}{
		{"inventory", c.began.Inventory.Enabled(), settings.Inventory.Enabled()},
		{"nodeGroups", len(c.began.NodeGroups) > 0, len(settings.NodeGroups) > 0},
		{"pools", len(c.began.Pools) > 0, len(settings.Pools) > 0},
	} {
		if part.had != part.has {
			errs = append(errs, fmt.Errorf("the section %s came or went: that takes effect when the process is started anew", part.name))
		}
	}
	if announces(settings) && !c.mayAnnounce() {
		errs = append(errs, errors.New("the process began with neither bgp nor l2: they take effect when it is started anew"))
	}
	return errors.Join(errs...)
}
