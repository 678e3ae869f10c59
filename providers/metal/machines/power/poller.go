package power

import (
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// closeTimeout is how long a controller may take to end a session.
const closeTimeout = 2 * time.Second

// Configured is a config that changes, as a *config.Source is.
type Configured interface {
	// Current returns the config in force.
	Current() *config.CloudConfig
	// Subscribe has changed called after each change, until cancel is called.
	Subscribe(changed func(*config.CloudConfig)) (cancel func())
}

// Options say how a Poller works. The zero value is fine.
type Options struct {
	// Open returns what asks the controller of a machine. Nil: NewReader.
	Open func(*config.Machine) (Reader, error)
	// Registerer takes the metrics. Nil: they are not exported.
	Registerer prometheus.Registerer
}

// Poller asks the management controllers of all machines, each at its own pace, so one that hangs holds up no other. It is
// safe for concurrent use.
type Poller struct {
	open    func(*config.Machine) (Reader, error)
	metrics *metrics

	mu       sync.Mutex
	settings config.Power
	// watched are the machines that have a controller, by their IDs.
	watched     map[string]*watched
	subscribers []*subscriber
}

// watched is one machine whose controller is asked.
type watched struct {
	machine *config.Machine
	history history
	// notified is the state that subscribers have been notified of.
	notified State
	// stop ends the asking, and ended is closed when it has.
	stop  context.CancelFunc
	ended chan struct{}
}

type subscriber struct{ changed func() }

// NewPoller returns a poller that knows nothing until it runs.
func NewPoller(options Options) *Poller {
	p := &Poller{open: options.Open, watched: map[string]*watched{}}
	if p.open == nil {
		p.open = NewReader
	}
	p.metrics = newMetrics(options.Registerer, p)
	return p
}

// Run asks until ctx ends. It is called once. Every poller asks every controller, so it is the leader's that runs.
func (p *Poller) Run(ctx context.Context, source Configured) error {
	changes := make(chan struct{}, 1)
	cancel := source.Subscribe(func(*config.CloudConfig) {
		select {
		case changes <- struct{}{}:
		default:
		}
	})
	defer cancel()
	defer p.stopAll()
	for {
		p.follow(ctx, source.Current())
		select {
		case <-changes:
		case <-ctx.Done():
			return nil
		}
	}
}

// Observe returns what is known of the power of the machine with an ID.
func (p *Poller) Observe(id string) Observation {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w, ok := p.watched[id]; ok {
		observation := w.history.observe(time.Now(), counts(p.settings))
		observation.Trusted = observation.Verified || w.machine.BMC.AllowUnverified
		return observation
	}
	return Observation{}
}

// Subscribe has a function called when the state of a machine has changed by a reading, until cancel is called. A state that stops
// to count, because no reading follows, is not notified: ask now and then. It holds up a reading, so it has to be quick.
func (p *Poller) Subscribe(changed func()) (cancel func()) {
	added := &subscriber{changed}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.subscribers = append(p.subscribers, added)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.subscribers = slices.DeleteFunc(slices.Clone(p.subscribers), func(other *subscriber) bool { return other == added })
	}
}

// follow begins to ask the machines of a config, and ends for machines that are not in it. What has not changed goes on.
func (p *Poller) follow(ctx context.Context, c *config.CloudConfig) {
	p.mu.Lock()
	settings, before := c.Power, p.watched
	sameSettings := settings == p.settings
	p.settings, p.watched = settings, make(map[string]*watched, len(before))
	var begun, ended []*watched
	for i := range c.Inventory.Machines {
		machine := &c.Inventory.Machines[i]
		if machine.BMC == nil {
			continue
		}
		was, known := before[machine.ID]
		if known && sameSettings && sameQuestion(was.machine, machine) {
			p.watched[machine.ID] = was
			continue
		}
		w := &watched{machine: machine, ended: make(chan struct{})}
		if known && reflect.DeepEqual(was.machine.BMC, machine.BMC) && was.machine.SystemUUID == machine.SystemUUID {
			w.history, w.notified = was.history, was.notified
		}
		p.watched[machine.ID] = w
		begun = append(begun, w)
	}
	for id, w := range before {
		if p.watched[id] != w {
			ended = append(ended, w)
		}
	}
	p.mu.Unlock()
	stop(ended)
	// Machines that go on keep the bound that they have; together it may be exceeded until the settings change.
	bound := newBound(settings.Concurrency)
	for _, w := range begun {
		asking, cancel := context.WithCancel(ctx)
		w.stop = cancel
		go p.ask(asking, w, settings, bound)
	}
}

// sameQuestion reports whether a change of a machine leaves everything as it was that a reader is made of.
func sameQuestion(a, b *config.Machine) bool {
	return a.Name == b.Name && a.SystemUUID == b.SystemUUID &&
		reflect.DeepEqual(a.BMC, b.BMC) && reflect.DeepEqual(a.Addresses, b.Addresses)
}

func (p *Poller) stopAll() {
	p.mu.Lock()
	var all []*watched
	for _, w := range p.watched {
		all = append(all, w)
	}
	p.mu.Unlock()
	stop(all)
}

// stop ends the asking of machines, all at once, and waits for it.
func stop(all []*watched) {
	for _, w := range all {
		w.stop()
	}
	for _, w := range all {
		<-w.ended
	}
}

// ask asks the controller of one machine until ctx ends.
func (p *Poller) ask(ctx context.Context, w *watched, settings config.Power, bound bound) {
	defer close(w.ended)
	log := logr.FromContextOrDiscard(ctx).WithValues("machine", w.machine.Name)
	reader, err := p.open(w.machine)
	if err != nil {
		log.Error(err, "Cannot read the power state of this machine")
		p.note(w, Reading{}, err, time.Now(), settings)
		return
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = reader.Close(ctx) // the controller ends a forgotten session by itself
	}()
	timer := time.NewTimer(rand.N(min(settings.Interval.Duration, startSpread)))
	defer timer.Stop()
	failing := false
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		release, err := bound.acquire(ctx, failing)
		if err != nil {
			return
		}
		begun := time.Now()
		reading, err := p.read(ctx, reader, w.machine, settings)
		release()
		if ctx.Err() != nil {
			return
		}
		failing = err != nil
		before, after := p.note(w, reading, err, begun, settings)
		logChange(log, before, after)
		timer.Reset(jittered(pause(after, settings)))
	}
}

// read asks once, within the time that a reading may take.
func (p *Poller) read(ctx context.Context, reader Reader, machine *config.Machine, settings config.Power) (Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, settings.Timeout.Duration)
	defer cancel()
	begun := time.Now()
	reading, err := reader.Read(ctx)
	p.metrics.read(protocol(machine.BMC), reading.State, err, time.Since(begun))
	return reading, err
}

// note remembers what became of an attempt and notifies subscribers of a change. It returns the history before and after.
func (p *Poller) note(w *watched, reading Reading, err error, begun time.Time, settings config.Power) (before, after history) {
	p.mu.Lock()
	before = w.history
	if err != nil {
		w.history = before.failed(err)
	} else {
		w.history = before.read(reading, begun, counts(settings))
	}
	after = w.history
	now := after.observe(time.Now(), counts(settings)).State
	changed := now != w.notified
	w.notified = now
	subscribers := p.subscribers
	p.mu.Unlock()
	if changed {
		for _, s := range subscribers {
			s.changed()
		}
	}
	return before, after
}

// logChange logs when a controller begins and ends to fail, and when a machine was turned on or off.
func logChange(log logr.Logger, before, after history) {
	switch {
	case after.failures == 1:
		log.Info("The BMC does not report the power state; trying again", "reason", after.err.Error())
	case after.failures == 0 && before.failures > 0:
		log.Info("The BMC reports the power state again", "power", after.reading.State.String(), "failures", before.failures)
	case after.failures == 0 && before.readings > 0 && after.reading.State != before.reading.State:
		log.Info("The power state has changed", "power", after.reading.State.String(), "before", before.reading.State.String())
	}
}
