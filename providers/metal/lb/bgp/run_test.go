package bgp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

// run starts Run and returns where its error will be.
func running(t *testing.T, ctx context.Context, speaker *Speaker) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- speaker.Run(ctx) }()
	return ended
}

// ends waits for Run's end.
func ends(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(poll.Deadline):
		t.Fatal("Run has not ended")
		return nil
	}
}

func speakerWith(t *testing.T, options Options) *Speaker {
	t.Helper()
	if options.Config.Peers == nil {
		local := router
		local.Address, local.HoldTime.Duration, local.KeepaliveTime.Duration = "127.0.0.1", 9*time.Second, 3*time.Second
		options.Config = configured(local)
		options.Config.Peers[0].Port = 1 // no process listens there
	}
	speaker, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	return speaker
}

// begun waits until the speaker has a server.
func begun(t *testing.T, speaker *Speaker) {
	t.Helper()
	poll.Until(t, "the sessions have begun", func(context.Context) error { return poll.Holds(speaker.running.Load() != nil) })
}

func TestRunWaitsForTheTable(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	speaker := speakerWith(t, Options{FirstTable: time.Hour})
	ended := running(t, ctx, speaker)
	cancel()
	if err := ends(t, ended); err != nil || speaker.running.Load() != nil {
		t.Errorf("the end before there is a table: %v", err)
	}

	speaker = speakerWith(t, Options{FirstTable: time.Hour})
	ended = running(t, t.Context(), speaker)
	if err := speaker.Announce(t.Context(), routing.Table{service: route(service, "", one)}); err != nil {
		t.Fatal(err)
	}
	begun(t, speaker)
	if err := speaker.Stop(t.Context(), Withdraw); err != nil {
		t.Error(err)
	}
	if err := ends(t, ended); err != nil {
		t.Error(err)
	}
	if status := speaker.Peers()[0]; status.Up() || status.State != "Idle" {
		t.Errorf("after the end: %+v", status)
	}
	if err := speaker.Announce(t.Context(), routing.Table{}); err != nil {
		t.Errorf("a table that comes after the end: %v", err)
	}

	for name, options := range map[string]Options{"in mode ActiveActive": {}, "when it has waited": {FirstTable: time.Millisecond}} {
		impatient := speakerWith(t, options)
		ended = running(t, t.Context(), impatient)
		begun(t, impatient)
		if err := impatient.Ready(); !errors.Is(err, errNoTable) {
			t.Errorf("%s: ready without a table: %v", name, err)
		}
		if err := impatient.Stop(t.Context(), Graceful); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := ends(t, ended); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRunSaysWhyItCannotBegin(t *testing.T) {
	taken, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	section := configured(router)
	section.ListenPort = int32(taken.Addr().(*net.TCPAddr).Port)
	section.RouterID = "192.0.2.1"
	speaker := speakerWith(t, Options{Config: section, FirstTable: time.Millisecond})
	if err := ends(t, running(t, t.Context(), speaker)); err == nil || !strings.Contains(err.Error(), "start BGP with AS 64512") {
		t.Errorf("the port is taken: %v", err)
	}
}

func TestAnnounceStopsWithItsContext(t *testing.T) {
	speaker := speakerWith(t, Options{FirstTable: time.Millisecond, LookAgain: 10 * time.Millisecond})
	ended := running(t, t.Context(), speaker)
	begun(t, speaker)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := speaker.Announce(canceled, routing.Table{service: route(service, "", one)}); err == nil {
		t.Error("announced with a context that has ended")
	}
	// The rest is tried again without being asked.
	poll.Until(t, "the rest of the table is tried again", func(context.Context) error {
		speaker.mu.Lock()
		defer speaker.mu.Unlock()
		if announced := len(speaker.announced[""]); announced != 1 {
			return fmt.Errorf("%d are announced, want 1", announced)
		}
		return nil
	})
	if err := speaker.Stop(t.Context(), Withdraw); err != nil {
		t.Error(err)
	}
	if err := ends(t, ended); err != nil {
		t.Error(err)
	}
}

func TestReconfigureBeforeRun(t *testing.T) {
	speaker := speakerWith(t, Options{})
	another := router
	another.Name, another.Address = "rack-2", "10.0.0.2"
	if err := speaker.Reconfigure(t.Context(), configured(router, another)); err != nil || len(speaker.Peers()) != 2 {
		t.Errorf("%v, %+v", err, speaker.Peers())
	}
	twice := configured(router, router)
	if err := speaker.Reconfigure(t.Context(), twice); err == nil || len(speaker.Peers()) != 2 {
		t.Errorf("two routers of one address: %v", err)
	}
	if err := speaker.Reconfigure(t.Context(), configured(config.BGPPeer{Name: "x", Address: "y"})); err == nil {
		t.Error("a router without an address is taken")
	}
}
