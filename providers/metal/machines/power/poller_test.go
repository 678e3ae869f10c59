package power

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// bench is a poller of machines whose controllers are fakes.
type bench struct {
	*Poller
	mu       sync.Mutex
	current  *config.CloudConfig
	changed  func(*config.CloudConfig)
	controls map[string]*control
	// asked, asking and most count readings: all, those at this moment, and the most at once.
	asked, asking, most atomic.Int64
	told                atomic.Int64
	logs                []string
	registry            *prometheus.Registry
}

// control is a management controller.
type control struct {
	mu       sync.Mutex
	state    State
	system   SystemUUID
	verified bool
	err      error
	// alternates has each reading say the other of on and off.
	alternates bool
	takes      time.Duration
	asked      []time.Time
	closed     int
}

func (c *control) set(state State, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state, c.err = state, err
}

// give sets which system the controller says it manages.
func (c *control) give(system SystemUUID, verified bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.system, c.verified = system, verified
}

func (c *control) times() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.asked)
}

type controlReader struct {
	*control
	bench *bench
}

func (r controlReader) Read(ctx context.Context) (Reading, error) {
	r.bench.asked.Add(1)
	now := r.bench.asking.Add(1)
	defer r.bench.asking.Add(-1)
	for most := r.bench.most.Load(); now > most && !r.bench.most.CompareAndSwap(most, now); most = r.bench.most.Load() {
	}
	r.mu.Lock()
	r.asked = append(r.asked, time.Now())
	if r.alternates {
		r.state = map[State]State{On: Off, Off: On}[r.state]
	}
	reading, err, takes := Reading{State: r.state, System: r.system, Verified: r.verified}, r.err, r.takes
	r.mu.Unlock()
	select {
	case <-time.After(takes):
		return reading, err
	case <-ctx.Done():
		return Reading{}, ctx.Err()
	}
}

func (r controlReader) Close(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed++
	return nil
}

func (b *bench) Current() *config.CloudConfig {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current
}

func (b *bench) Subscribe(changed func(*config.CloudConfig)) func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changed = changed
	return func() {}
}

// use makes a config current. Machines are named by power's settings, such as "interval: 10s", and by names.
func (b *bench) use(t *testing.T, settings string, names ...string) {
	t.Helper()
	var text strings.Builder
	_, _ = fmt.Fprintf(&text, "apiVersion: %s\nkind: %s\npower: {%s}\ninventory:\n  machines:\n", config.APIVersion, config.CloudConfigKind, settings)
	for i, name := range names {
		name, without := strings.CutSuffix(name, "-without")
		_, _ = fmt.Fprintf(&text, "  - {name: %s, addresses: [{address: 10.0.%d.%d}]", name, i/200, 1+i%200)
		if !without {
			_, _ = fmt.Fprintf(&text, ", bmc: {command: {argv: [/bin/%s]}}", name)
		}
		text.WriteString("}\n")
	}
	loaded, err := config.Read(strings.NewReader(text.String()), "")
	if err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	b.current = loaded
	changed := b.changed
	for i := range loaded.Inventory.Machines {
		name := loaded.Inventory.Machines[i].Name
		if b.controls[name] == nil {
			b.controls[name] = &control{state: On}
		}
	}
	b.mu.Unlock()
	if changed != nil {
		changed(loaded)
	}
}

// runPoller runs a poller in virtual time.
func runPoller(t *testing.T, work func(t *testing.T, b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{controls: map[string]*control{}, registry: prometheus.NewRegistry()}
		b.Poller = NewPoller(Options{Registerer: b.registry, Open: func(machine *config.Machine) (Reader, error) {
			if strings.HasPrefix(machine.Name, "odd") {
				return nil, errors.New("an odd machine")
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			return controlReader{b.controls[machine.Name], b}, nil
		}})
		cancelTold := b.Poller.Subscribe(func() { b.told.Add(1) })
		defer cancelTold()
		work(t, b)
	})
}

// start runs the poller until stop is called.
func (b *bench) start(t *testing.T) (stop func()) {
	t.Helper()
	log := funcr.New(func(_, args string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.logs = append(b.logs, args)
	}, funcr.Options{})
	ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), log))
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx, b) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
	}
}

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bench) is(t *testing.T, name string, want State) {
	t.Helper()
	if got := b.Observe(name); got.State != want {
		t.Errorf("%s is %s (%v), want %s", name, got.State, got.Err, want)
	}
}

func TestPollerSeesChanges(t *testing.T) {
	runPoller(t, func(t *testing.T, b *bench) {
		b.use(t, "interval: 10s", "n1", "n2", "n3-without", "odd")
		b.controls["n2"].set(Off, nil)
		b.is(t, "n1", Unknown)
		defer b.start(t)()
		after(2 * time.Second)
		b.is(t, "n1", On)
		b.is(t, "n2", Unknown)
		after(2500 * time.Millisecond)
		b.is(t, "n2", Off)
		b.is(t, "n3", Unknown)
		b.is(t, "odd", Unknown)
		b.is(t, "none", Unknown)
		if told := b.told.Load(); told != 2 {
			t.Errorf("subscribers were told of %d changes, want 2", told)
		}
		b.controls["n1"].set(Off, nil)
		b.controls["n2"].set(On, nil)
		after(13500 * time.Millisecond) // an interval with its jitter, and a confirmation
		b.is(t, "n1", Off)
		b.is(t, "n2", On)
		if err := b.Observe("odd").Err; err == nil || err.Error() != "an odd machine" {
			t.Errorf("the reason for an odd machine is %v", err)
		}
		err := testutil.GatherAndCompare(b.registry, strings.NewReader(`
# HELP mooring_metal_bmc_failures Attempts in a row to read the power state of a machine that failed, for machines of which the last attempt did.
# TYPE mooring_metal_bmc_failures gauge
mooring_metal_bmc_failures{machine="odd"} 1
# HELP mooring_metal_machines_power Machines that have a BMC, by power state as it counts: on, off (confirmed) or unknown.
# TYPE mooring_metal_machines_power gauge
mooring_metal_machines_power{state="off"} 1
mooring_metal_machines_power{state="on"} 1
mooring_metal_machines_power{state="unknown"} 1
`), "mooring_metal_bmc_failures", "mooring_metal_machines_power")
		if err != nil {
			t.Error(err)
		}
	})
}

// A controller that fails makes its machine unknown after a while, is asked less and less often, and is logged twice.
func TestPollerBacksOff(t *testing.T) {
	runPoller(t, func(t *testing.T, b *bench) {
		b.use(t, "interval: 10s, staleAfter: 3", "n1")
		defer b.start(t)()
		after(3 * time.Second)
		b.controls["n1"].set(Off, errors.New("no route"))
		after(26 * time.Second)
		b.is(t, "n1", On)
		after(6 * time.Second)
		b.is(t, "n1", Unknown)
		asked := b.controls["n1"].times()
		after(time.Hour)
		if more := b.controls["n1"].times() - asked; more < 50 || more > 66 {
			t.Errorf("asked %d times in an hour, want about one a minute", more)
		}
		b.is(t, "n1", Unknown)
		b.controls["n1"].set(Off, nil)
		after(70 * time.Second)
		b.is(t, "n1", Off)
		b.mu.Lock()
		defer b.mu.Unlock()
		all := strings.Join(b.logs, "\n")
		if strings.Count(all, "does not report") != 1 || strings.Count(all, "reports the power state again") != 1 {
			t.Errorf("want one line when it begins to fail, and one when it ends:\n%s", all)
		}
	})
}

// One controller that hangs holds up no other, and never more are asked at once than the bound.
func TestPollerIsBounded(t *testing.T) {
	runPoller(t, func(t *testing.T, b *bench) {
		names := make([]string, 500)
		for i := range names {
			names[i] = fmt.Sprintf("n%d", i)
		}
		b.use(t, "interval: 10s, timeout: 1s, concurrency: 8", names...)
		for i, name := range names {
			b.controls[name].takes = 50 * time.Millisecond
			if i%100 == 0 {
				b.controls[name].takes = time.Hour
			}
		}
		defer b.start(t)()
		after(8 * time.Second)
		for i, name := range names {
			want := On
			if i%100 == 0 {
				want = Unknown
			}
			b.is(t, name, want)
		}
		if most := b.most.Load(); most != 8 {
			t.Errorf("at most %d were asked at once, want 8", most)
		}
	})
}

// The config changes while machines are watched: what has not changed is not asked anew, and what has gone is not asked again.
func TestPollerFollowsTheConfig(t *testing.T) {
	runPoller(t, func(t *testing.T, b *bench) {
		b.use(t, "interval: 10s", "n1", "n2")
		b.controls["n1"].set(Off, nil)
		stop := b.start(t)
		after(5 * time.Second)
		b.is(t, "n1", Off)
		b.use(t, "interval: 10s", "n1", "n3")
		synctest.Wait()
		b.is(t, "n1", Off)
		b.is(t, "n2", Unknown)
		if closed := b.controls["n2"].closed; closed != 1 {
			t.Errorf("the reader of n2 was closed %d times", closed)
		}
		asked := b.controls["n2"].times()
		after(3 * time.Second)
		b.is(t, "n3", On)
		b.use(t, "interval: 20s", "n1", "n3")
		synctest.Wait()
		b.is(t, "n1", Off) // what was known goes on
		after(50 * time.Second)
		b.is(t, "n1", Off)
		if again := b.controls["n2"].times(); again != asked {
			t.Errorf("n2 was asked %d times after it had gone", again-asked)
		}
		before := b.controls["n1"].times()
		after(10 * time.Minute)
		if more := b.controls["n1"].times() - before; more < 26 || more > 30 {
			t.Errorf("n1 was asked %d times in 10 minutes, want about 29", more)
		}
		stop()
		for _, name := range []string{"n1", "n3"} {
			if b.controls[name].closed != 2 {
				t.Errorf("the reader of %s was closed %d times, want 2", name, b.controls[name].closed)
			}
		}
		after(2 * time.Minute)
		b.is(t, "n1", Unknown)
	})
}
