package power

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/bmc/ipmitest"
	"github.com/mooring-ccm/mooring/dev/bmc/redfishsim"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// within calls a function with a deadline.
func within(t *testing.T, limit time.Duration, call func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return call(ctx)
}

func turnOn(t *testing.T, machine *config.Machine) error {
	t.Helper()
	return within(t, 10*time.Second, func(ctx context.Context) error { return TurnOn(ctx, machine) })
}

func shutDown(t *testing.T, machine *config.Machine) error {
	t.Helper()
	return within(t, 10*time.Second, func(ctx context.Context) error { return ShutDown(ctx, machine, "") })
}

// A machine is shut down and turned on again by one reset each, and one that is so already by none.
func TestSwitchByRedfish(t *testing.T) {
	service, machine := fenceable(t)
	for _, step := range []struct {
		call  func(*testing.T, *config.Machine) error
		power string
		takes []string
	}{
		{turnOn, redfishsim.On, []string{"On"}},
		{shutDown, redfishsim.Off, []string{"GracefulShutdown", "ForceOff"}},
		{shutDown, redfishsim.Off, nil},
		{turnOn, redfishsim.On, []string{"ForceOn", "ForceOff"}},
	} {
		service.TakeResets(step.takes...)
		if err := step.call(t, machine); err != nil || service.Power("1") != step.power {
			t.Errorf("%v; the machine is %s, want %s", err, service.Power("1"), step.power)
		}
	}
	if resets := service.Requests()[resetPath]; resets != 2 {
		t.Errorf("%d resets, want 2", resets)
	}
	if open, _ := service.Sessions(); open != 0 {
		t.Errorf("%d sessions are left", open)
	}
}

// A controller of another system, or that cannot do it, changes nothing.
func TestSwitchIsRefused(t *testing.T) {
	service, machine := fenceable(t)
	service.TakeResets("ForceOff", "On")
	if err := shutDown(t, machine); !errors.Is(err, ErrCannotTurnOff) || service.Power("1") != redfishsim.On {
		t.Errorf("without GracefulShutdown: %v; the machine is %s", err, service.Power("1"))
	}
	service.SetPower("1", redfishsim.Off)
	service.TakeResets("ForceOff")
	if err := turnOn(t, machine); !errors.Is(err, ErrCannotTurnOn) {
		t.Errorf("without On: %v", err)
	}
	service.TakeResets("On")
	service.SetUUID("1", uuid2)
	var wrong *WrongSystemError
	if err := turnOn(t, machine); !errors.As(err, &wrong) {
		t.Errorf("another system: %v", err)
	}
	service.SetUUID("1", "")
	if err := turnOn(t, machine); !errors.Is(err, ErrUnverified) {
		t.Errorf("no system: %v", err)
	}
	if service.Power("1") != redfishsim.Off || service.Requests()[resetPath] != 0 {
		t.Errorf("the machine is %s after %d resets", service.Power("1"), service.Requests()[resetPath])
	}
}

// IPMI turns a machine off and on.
func TestSwitchByIPMI(t *testing.T) {
	bmc := ipmitest.Start(t, "127.0.0.1", ipmiSecret)
	machine := ipmiMachine(t, bmc, ipmitest.Admin)
	machine.BMC.IPMI.CipherSuite = 3
	machine.SystemUUID = "a1234567-89ab-cdef-a123-456789abcdef"
	bmc.Tool("power", "off")
	if err := turnOn(t, machine); err != nil {
		t.Error(err)
	}
	if said := bmc.Tool("power", "status"); !strings.Contains(said, "is on") {
		t.Errorf("the machine: %s", said)
	}
	if err := shutDown(t, machine); err != nil {
		t.Errorf("shutting down: %v", err)
	}
}

// Commands shut a machine down and turn it on where there are such.
func TestSwitchByCommand(t *testing.T) {
	state := filepath.Join(t.TempDir(), "power")
	rewrite(t, state, "on "+uuid1)
	machine := script(t, `cat "$1"`, state)
	machine.SystemUUID = uuid1
	if err := shutDown(t, machine); !errors.Is(err, ErrCannotTurnOff) {
		t.Errorf("without a command: %v", err)
	}
	machine.BMC.Command.ShutDown = []string{"/bin/sh", "-c", `echo "off $MACHINE_SYSTEM_UUID" >"$1"`, "sh", state}
	machine.BMC.Command.PowerOn = []string{"/bin/sh", "-c", `echo "on $MACHINE_SYSTEM_UUID" >"$1"`, "sh", state}
	for _, step := range []struct {
		call func(*testing.T, *config.Machine) error
		want string
	}{{shutDown, "off "}, {turnOn, "on "}} {
		if err := step.call(t, machine); err != nil {
			t.Error(err)
		}
		if said, err := os.ReadFile(state); err != nil || !strings.HasPrefix(string(said), step.want) {
			t.Errorf("%s, %v", said, err)
		}
	}
}
