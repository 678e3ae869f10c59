package power

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/bmc/ipmitest"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// ipmiSecret is as long as ipmi_sim bears.
const ipmiSecret = "battery-staple"

func ipmiMachine(t *testing.T, bmc *ipmitest.BMC, username string) *config.Machine {
	t.Helper()
	return &config.Machine{Name: "n1", ID: "n1", BMC: &config.BMC{
		IPMI:        &config.IPMI{Address: bmc.Address},
		Credentials: &config.Credentials{Username: username, PasswordFile: file(t, bmc.Password)},
	}}
}

func TestIPMI(t *testing.T) {
	bmc := ipmitest.Start(t, "127.0.0.1", ipmiSecret)
	machine := ipmiMachine(t, bmc, ipmitest.Monitor)
	reader := open(t, machine)
	expect(t, reader, "on")
	bmc.Tool("power", "off")
	expect(t, reader, "off")
	bmc.Tool("power", "on")
	expect(t, reader, "on")

	rewrite(t, machine.BMC.Credentials.PasswordFile, "wrong")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if reading, err := reader.Read(ctx); reading.State != Unknown || !errors.Is(err, errCredentials) {
		t.Errorf("with a wrong password: %s, %v", reading.State, err)
	}
	rewrite(t, machine.BMC.Credentials.PasswordFile, ipmiSecret)
	expect(t, reader, "on")
	machine.BMC.IPMI.CipherSuite = 17
	expect(t, open(t, machine), "cipher suite")

	machine.BMC.IPMI.CipherSuite = 3
	reader = open(t, machine)
	expect(t, reader, "on")
	bmc.Kill()
	begun := time.Now()
	short, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if reading, err := reader.Read(short); reading.State != Unknown || err == nil {
		t.Errorf("of a BMC that is dead: %s, %v", reading.State, err)
	} else if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("it took %s to give up after 300 ms", took)
	}
}

func TestIPMIOverIPv6(t *testing.T) {
	bmc := ipmitest.Start(t, "::1", ipmiSecret)
	reader := open(t, ipmiMachine(t, bmc, ipmitest.Monitor))
	bmc.Tool("power", "off")
	expect(t, reader, "off")
}

// A hundred readings leave no session behind: the simulator has room for ten of a user.
func TestIPMILeavesNoSessions(t *testing.T) {
	bmc := ipmitest.Start(t, "127.0.0.1", ipmiSecret)
	reader := open(t, ipmiMachine(t, bmc, ipmitest.Monitor))
	for range 100 {
		expect(t, reader, "on")
	}
}
