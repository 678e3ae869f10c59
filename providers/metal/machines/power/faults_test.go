package power

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Most controllers hang forever, as when a network of theirs is cut: the others are read in time all the while.
func TestHangingControllersDelayNoOthers(t *testing.T) {
	runPoller(t, func(t *testing.T, b *bench) {
		var names, healthy []string
		for i := range 300 {
			names = append(names, fmt.Sprintf("n%d", i))
			if i%10 == 0 {
				healthy = append(healthy, names[i])
			}
		}
		b.use(t, "interval: 10s, timeout: 5s, concurrency: 8", names...)
		for _, name := range names {
			b.controls[name].takes = time.Hour
		}
		for _, name := range healthy {
			b.controls[name].takes = 50 * time.Millisecond
		}
		defer b.start(t)()
		after(5 * time.Minute) // every one that hangs has been tried once
		for range 60 {
			after(5 * time.Second)
			for _, name := range healthy {
				b.is(t, name, On)
			}
		}
	})
}

// A controller that says off and on by turns, whatever its rhythm, never makes a machine count as off.
func TestAlternatingControllersConfirmNothing(t *testing.T) {
	runPoller(t, func(t *testing.T, b *bench) {
		b.use(t, "interval: 3s", "n1")
		control := b.controls["n1"]
		control.alternates = true
		defer b.start(t)()
		for range 600 {
			after(time.Second)
			if observed := b.Observe("n1"); observed.State == Off {
				t.Fatalf("%+v after %d readings", observed, control.times())
			}
		}
		if control.times() < 100 {
			t.Errorf("only %d readings", control.times())
		}
		if all := strings.Join(b.logs, "\n"); strings.Contains(all, "does not report") {
			t.Error("no reading has failed")
		}
	})
}
