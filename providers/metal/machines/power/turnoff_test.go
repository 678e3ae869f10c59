package power

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/bmc/ipmitest"
	"github.com/mooring-ccm/mooring/dev/bmc/redfishsim"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// turnOff turns a machine off within a deadline.
func turnOff(t *testing.T, machine *config.Machine, nodeUUID string, within time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	return TurnOff(ctx, machine, nodeUUID)
}

const resetPath = "POST /redfish/v1/Systems/1/Actions/ComputerSystem.Reset"

// fenceable is a machine whose service has it as the system 1.
func fenceable(t *testing.T) (*redfishsim.Service, *config.Machine) {
	t.Helper()
	service := redfishsim.New("admin", secret, redfishsim.System{ID: "1", UUID: uuid1})
	machine := redfishMachine(t, service)
	machine.SystemUUID = uuid1
	return service, machine
}

// A machine is turned off and confirmed to be, and one that is off already is only confirmed.
func TestTurnOffByRedfish(t *testing.T) {
	service, machine := fenceable(t)
	begun := time.Now()
	if err := turnOff(t, machine, "", 20*time.Second); err != nil {
		t.Fatal(err)
	}
	if service.Power("1") != redfishsim.Off || time.Since(begun) < ConfirmAfter {
		t.Errorf("it is %s after %s", service.Power("1"), time.Since(begun))
	}
	if err := turnOff(t, machine, uuid1, 20*time.Second); err != nil {
		t.Error(err)
	}
	if resets := service.Requests()[resetPath]; resets != 1 {
		t.Errorf("%d resets, want 1", resets)
	}
	if open, _ := service.Sessions(); open != 0 {
		t.Errorf("%d sessions are left", open)
	}
}

// Whatever leaves a doubt whose controller it is, or is no power-off, turns nothing off, and the error says what it was.
func TestTurnOffIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*redfishsim.Service, *config.Machine)
		node   string
		want   any
	}{
		"another system": {change: func(s *redfishsim.Service, _ *config.Machine) { s.SetUUID("1", uuid2) }, want: &WrongSystemError{}},
		"no system":      {change: func(s *redfishsim.Service, _ *config.Machine) { s.SetUUID("1", "") }, want: ErrUnverified},
		"no system, though trusted": {change: func(s *redfishsim.Service, m *config.Machine) {
			s.SetUUID("1", "")
			m.BMC.AllowUnverified = true
		}, want: ErrUnverified},
		"a machine without a UUID": {change: func(_ *redfishsim.Service, m *config.Machine) { m.SystemUUID = "" }, want: ErrUnverified},
		"a node with another UUID": {change: func(_ *redfishsim.Service, m *config.Machine) { m.SystemUUID = "" }, node: uuid2, want: &WrongSystemError{}},
		"a node elsewhere":         {change: func(*redfishsim.Service, *config.Machine) {}, node: uuid2, want: &WrongSystemError{}},
		"no ForceOff": {change: func(s *redfishsim.Service, _ *config.Machine) {
			s.TakeResets("GracefulShutdown", "On")
		}, want: ErrCannotTurnOff},
		"a password that was rotated": {change: func(s *redfishsim.Service, _ *config.Machine) { s.SetPassword("other") }, want: errCredentials},
	} {
		t.Run(name, func(t *testing.T) {
			service, machine := fenceable(t)
			test.change(service, machine)
			err := turnOff(t, machine, test.node, 5*time.Second)
			var wrong *WrongSystemError
			matches := false
			switch want := test.want.(type) {
			case *WrongSystemError:
				matches = errors.As(err, &wrong)
			case error:
				matches = errors.Is(err, want)
			}
			if !matches || strings.Contains(fmt.Sprint(err), secret) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if service.Power("1") != redfishsim.On {
				t.Errorf("the machine is %s", service.Power("1"))
			}
		})
	}
}

// That a machine is off already is believed of no controller that does not name it.
func TestTurnOffNeedsTheSystemUUID(t *testing.T) {
	service, machine := fenceable(t)
	service.SetPower("1", redfishsim.Off)
	service.SetUUID("1", "")
	if err := turnOff(t, machine, uuid1, 5*time.Second); !errors.Is(err, ErrUnverified) {
		t.Errorf("error %v", err)
	}
}

// The node's UUID is enough where the inventory has none. The credentials that turn a machine off may be others than the ones that look.
func TestTurnOffByTheNodesUUID(t *testing.T) {
	service, machine := fenceable(t)
	machine.SystemUUID = ""
	machine.BMC.PowerOffCredentials = machine.BMC.Credentials
	machine.BMC.Credentials = &config.Credentials{Username: "monitor", PasswordFile: file(t, "wrong")}
	if err := turnOff(t, machine, strings.ToUpper(uuid1), 20*time.Second); err != nil || service.Power("1") != redfishsim.Off {
		t.Errorf("%v; the machine is %s", err, service.Power("1"))
	}
}

// A service that takes the command and does nothing, and one that hangs, are given up at the deadline, with an error that says so.
func TestTurnOffIsBounded(t *testing.T) {
	service, machine := fenceable(t)
	service.IgnoreResets(true)
	begun := time.Now()
	err := turnOff(t, machine, "", 5*time.Second) // A busy machine may need much of it for the login, the reading and the reset.
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "was told to turn off") || time.Since(begun) > 20*time.Second {
		t.Errorf("after %s: %v", time.Since(begun), err)
	}
	end := service.Hang()
	defer end()
	begun = time.Now()
	if err := turnOff(t, machine, "", 300*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 5*time.Second {
		t.Errorf("after %s: %v", time.Since(begun), err)
	}
	if resets := service.Requests()[resetPath]; resets != 1 {
		t.Errorf("%d resets, want 1", resets)
	}
}

// A system that changes between the reading and the reset is read again, and the reset that was meant for the other state fails. What
// another system does changes nothing.
func TestResetsArePreconditioned(t *testing.T) {
	for system, want := range map[string]int{"1": 2, "2": 1} {
		t.Run("system "+system+" changes", func(t *testing.T) { resetsPreconditioned(t, system, want) })
	}
}

// resetsPreconditioned turns system 1 off while another one, or itself, is turned on, and asserts how many resets that takes.
func resetsPreconditioned(t *testing.T, touched string, want int) {
	t.Helper()
	service, machine := fenceable(t)
	raced := 0
	front := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.Contains(r.URL.Path, "Reset") && raced < 1 {
			raced++
			service.SetPower(touched, redfishsim.On) // by another client of the service
		}
		service.ServeHTTP(w, r)
	})
	machine.BMC.Redfish = &config.Redfish{Endpoint: newTLSServer(t, front), Auth: config.RedfishSession, InsecureSkipVerify: true}
	if err := turnOff(t, machine, "", 20*time.Second); err != nil || service.Power("1") != redfishsim.Off {
		t.Errorf("%v; the machine is %s", err, service.Power("1"))
	}
	if resets := service.Requests()[resetPath]; resets != want || raced != 1 {
		t.Errorf("%d resets, want %d", resets, want)
	}
}

// Services that refuse every condition of an action turn the machine off and on all the same, if it is still the same system.
func TestResetsWithoutConditions(t *testing.T) {
	service, machine := fenceable(t)
	service.RefuseConditions()
	if err := turnOff(t, machine, "", 20*time.Second); err != nil || service.Power("1") != redfishsim.Off {
		t.Errorf("%v; the machine is %s", err, service.Power("1"))
	}
	if err := TurnOn(t.Context(), machine); err != nil || service.Power("1") != redfishsim.On {
		t.Errorf("%v; the machine is %s", err, service.Power("1"))
	}
	front := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		service.ServeHTTP(w, r)
		if r.Header.Get("If-Match") != "" {
			service.SetUUID("1", uuid2) // the blade was moved
		}
	})
	machine.BMC.Redfish = &config.Redfish{Endpoint: newTLSServer(t, front), Auth: config.RedfishSession, InsecureSkipVerify: true}
	if err := turnOff(t, machine, "", 5*time.Second); err == nil || service.Power("1") != redfishsim.On {
		t.Errorf("another system: %v; it is %s", err, service.Power("1"))
	}
}

// IPMI: the user for that turns the machine off, and another machine's controller is left alone. (ipmi_sim lets every user do it.)
func TestTurnOffByIPMI(t *testing.T) {
	bmc := ipmitest.Start(t, "127.0.0.1", ipmiSecret)
	machine := ipmiMachine(t, bmc, ipmitest.Monitor)
	machine.BMC.IPMI.CipherSuite = 3
	machine.SystemUUID = uuid1
	var wrong *WrongSystemError
	if err := turnOff(t, machine, "", 5*time.Second); !errors.As(err, &wrong) {
		t.Errorf("another machine's controller: %v", err)
	}
	machine.SystemUUID = "a1234567-89ab-cdef-a123-456789abcdef"
	if said := bmc.Tool("power", "status"); !strings.Contains(said, "is on") {
		t.Fatalf("the machine: %s", said)
	}
	machine.BMC.PowerOffCredentials = &config.Credentials{Username: ipmitest.Admin, PasswordFile: machine.BMC.Credentials.PasswordFile}
	if err := turnOff(t, machine, "", 20*time.Second); err != nil {
		t.Error(err)
	}
	if said := bmc.Tool("power", "status"); !strings.Contains(said, "is off") {
		t.Errorf("the machine: %s", said)
	}
}

// A command turns the machine off where it has one, and names the machine.
func TestTurnOffByCommand(t *testing.T) {
	state := filepath.Join(t.TempDir(), "power")
	rewrite(t, state, "on "+uuid1)
	machine := script(t, `cat "$1"`, state)
	if err := turnOff(t, machine, "", 5*time.Second); !errors.Is(err, ErrCannotTurnOff) {
		t.Errorf("without a command: %v", err)
	}
	machine.BMC.Command.PowerOff = []string{"/bin/sh", "-c", `echo "no, $MACHINE_NAME" >&2; exit 1`}
	if err := turnOff(t, machine, "", 5*time.Second); err == nil || !strings.Contains(err.Error(), "no, n1") {
		t.Errorf("a command that fails: %v", err)
	}
	machine.BMC.Command.PowerOff = []string{"/bin/sh", "-c", `echo "off $MACHINE_SYSTEM_UUID" >"$1"`, "sh", state}
	if err := turnOff(t, machine, "", 20*time.Second); err != nil {
		t.Error(err)
	}
	if said, err := os.ReadFile(state); err != nil || !strings.HasPrefix(string(said), "off ") {
		t.Errorf("%s, %v", said, err)
	}
}
