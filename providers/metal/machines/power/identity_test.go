package power

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/types"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/mooring-ccm/mooring/dev/bmc/ipmitest"
	"github.com/mooring-ccm/mooring/dev/bmc/redfishsim"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// swapped1 is uuid1 with the first three fields in the other order of bytes.
const swapped1 = "33221100-5544-7766-8899-aabbccddeeff"

// readOnce reads within a deadline.
func readOnce(t *testing.T, reader Reader) (Reading, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return reader.Read(ctx)
}

// isWrong holds an error to be a *WrongSystemError that names both UUIDs.
func isWrong(t *testing.T, reading Reading, err error, given, wanted string) {
	t.Helper()
	var wrong *WrongSystemError
	if reading != (Reading{}) || !errors.As(err, &wrong) || wrong.UUID != given || wrong.Want != wanted {
		t.Errorf("%+v, %v; want a WrongSystemError with %s and %s", reading, err, given, wanted)
		return
	}
	if !strings.Contains(err.Error(), given) || !strings.Contains(err.Error(), wanted) || !strings.Contains(err.Error(), wrong.Machine) {
		t.Errorf("the error does not name the machine and both UUIDs: %v", err)
	}
}

// A Redfish service that manages another system than the machine's is never believed, at the first reading as at any other.
func TestRedfishOfAnotherMachine(t *testing.T) {
	for name, test := range map[string]struct {
		inventory, bmc, service string
		wrong, verified         bool
	}{
		"the machine's":                    {uuid1, "", uuid1, false, true},
		"in capitals":                      {uuid1, "", strings.ToUpper(uuid1), false, true},
		"in the other order of bytes":      {uuid1, "", swapped1, false, true},
		"another one's":                    {uuid1, "", uuid2, true, false},
		"all bytes reversed":               {uuid1, "", "ffeeddcc-bbaa-9988-7766-554433221100", true, false},
		"of firmware that differs":         {uuid1, uuid2, uuid2, false, true},
		"of firmware that does not differ": {uuid1, uuid2, uuid1, true, false},
		"none":                             {uuid1, "", "", false, false},
		"zero":                             {uuid1, "", uuid.Nil.String(), false, false},
		"a placeholder":                    {uuid1, "", "03000200-0400-0500-0006-000700080009", false, false},
		"nonsense":                         {uuid1, "", "To be filled by O.E.M.", false, false},
		"not known of the machine":         {"", "", uuid2, false, false},
		"a placeholder of both":            {"03000200-0400-0500-0006-000700080009", "", "03000200-0400-0500-0006-000700080009", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, state := range []string{redfishsim.Off, redfishsim.On} {
				machine := redfishMachine(t, redfishsim.New("admin", secret, redfishsim.System{ID: "1", UUID: test.service, Power: state}))
				machine.SystemUUID, machine.BMC.SystemUUID = test.inventory, test.bmc
				reading, err := readOnce(t, open(t, machine))
				if test.wrong {
					isWrong(t, reading, err, test.service, machine.BMCSystemUUID())
				} else if err != nil || reading.State.String() != strings.ToLower(state) || reading.Verified != test.verified {
					t.Errorf("%+v, %v; want %s, verified %t", reading, err, state, test.verified)
				}
			}
		})
	}
}

// The system behind a service changes while the machine is watched, as when a blade is moved. From the next reading on, its state belongs
// to another machine. If the service has the machine's system at another place, it is found there.
func TestRedfishSystemsMove(t *testing.T) {
	service := redfishsim.New("admin", secret, redfishsim.System{ID: "1", UUID: uuid1}, redfishsim.System{ID: "2", UUID: uuid2, Power: redfishsim.Off})
	machine := redfishMachine(t, service)
	machine.SystemUUID = uuid1
	reader := open(t, machine)
	expect(t, reader, "on")
	service.SetUUID("1", uuid2)
	service.SetUUID("2", uuid1)
	reading, err := readOnce(t, reader)
	isWrong(t, reading, err, uuid2, uuid1)
	expect(t, reader, "off")
}

// A controller may give its GUID by IPMI as the standard wants it, with all bytes reversed, or as SMBIOS has it, in both orders. No other
// order counts.
func TestIPMIOfAnotherMachine(t *testing.T) {
	plain := strings.ReplaceAll(uuid1, "-", "")
	bytes, err := hex.DecodeString(plain)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(bytes)
	for name, test := range map[string]struct {
		guid            string
		wrong, verified bool
	}{
		"the text's order":            {plain, false, true},
		"the order of SMBIOS":         {strings.ReplaceAll(swapped1, "-", ""), false, true},
		"the order of the standard":   {hex.EncodeToString(bytes), false, true},
		"another machine's":           {strings.ReplaceAll(uuid2, "-", ""), true, false},
		"only the last field differs": {plain[:31] + "0", true, false},
		"words reversed":              {"33221100" + plain[8:], true, false},
		"zero":                        {strings.Repeat("0", 32), false, false},
		"all bits":                    {strings.Repeat("f", 32), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			bmc := ipmitest.StartWithGUID(t, "127.0.0.1", ipmiSecret, test.guid)
			machine := ipmiMachine(t, bmc, ipmitest.Monitor)
			machine.SystemUUID = uuid1
			bmc.Tool("power", "off")
			reading, err := readOnce(t, open(t, machine))
			if test.wrong {
				isWrong(t, reading, err, uuid.MustParse(test.guid).String(), uuid1)
			} else if err != nil || reading.State != Off || reading.Verified != test.verified {
				t.Errorf("%+v, %v; want off, verified %t", reading, err, test.verified)
			}
		})
	}
}

// A controller that answers that it has no such command does not say which system it manages; one that is busy, or silent, may say it
// the next time.
func TestIPMIWithoutGUID(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"invalid command":         {types.NewResponseError(0xc1, ""), true},
		"insufficient privilege":  {fmt.Errorf("exchange: %w", types.NewResponseError(0xd4, "")), true},
		"busy":                    {types.NewResponseError(0xc0, ""), false},
		"initialization":          {types.NewResponseError(0xd2, ""), false},
		"no answer":               {context.DeadlineExceeded, false},
		"a connection that broke": {errors.New("read udp: connection refused"), false},
	} {
		if got := withoutGUID(test.err); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

// Commands give the UUID behind the state, or do not.
func TestCommandsOfAnotherMachine(t *testing.T) {
	for name, test := range map[string]struct {
		prints          string
		wrong, verified bool
	}{
		"the machine's":     {"off " + uuid1, false, true},
		"on another line":   {"off\n" + strings.ToUpper(swapped1), false, true},
		"another machine's": {"off " + uuid2, true, false},
		"none":              {"off", false, false},
		"zero":              {"off " + uuid.Nil.String(), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			reading, err := readOnce(t, open(t, script(t, fmt.Sprintf("printf '%s'", test.prints))))
			if test.wrong {
				isWrong(t, reading, err, uuid2, uuid1)
			} else if err != nil || reading.State != Off || reading.Verified != test.verified {
				t.Errorf("%+v, %v; want off, verified %t", reading, err, test.verified)
			}
		})
	}
	expect(t, open(t, script(t, "echo off soon")), `it printed "off soon", want on, off or unknown`)
	expect(t, open(t, script(t, "echo off "+uuid1+" "+uuid1)), "it printed")
}

// A controller that turns out to be another machine's takes with it what it has said before, and one that gives one system and then
// another confirms nothing.
func TestPollerForgetsAnotherMachine(t *testing.T) {
	first, second := newSystemUUID(uuid1), newSystemUUID(uuid2)
	runPoller(t, func(t *testing.T, b *bench) {
		b.use(t, "interval: 10s", "n1", "n2")
		b.controls["n1"].set(Off, nil)
		b.controls["n2"].set(Off, nil)
		b.controls["n2"].give(first, false)
		defer b.start(t)()
		after(5 * time.Second)
		b.is(t, "n1", Off)
		b.is(t, "n2", Off)
		b.controls["n1"].set(Off, &WrongSystemError{Machine: "n1", Source: SourceBMC, UUID: uuid2, Reference: SourceInventory, Want: uuid1})
		after(11 * time.Second)
		b.is(t, "n1", Unknown)
		if err := testutil.GatherAndCompare(b.registry, strings.NewReader(`
# HELP mooring_metal_bmc_systems Machines that have a BMC, by whether it is theirs: verified (it gives the systemUUID of the inventory), unverified (one of the two is not known), wrong (it gives another one) or unknown (it does not answer).
# TYPE mooring_metal_bmc_systems gauge
mooring_metal_bmc_systems{result="unknown"} 0
mooring_metal_bmc_systems{result="unverified"} 1
mooring_metal_bmc_systems{result="verified"} 0
mooring_metal_bmc_systems{result="wrong"} 1
`), "mooring_metal_bmc_systems"); err != nil {
			t.Error(err)
		}
		for range 20 {
			b.controls["n2"].give(second, false)
			after(2100 * time.Millisecond)
			b.controls["n2"].give(first, false)
			after(2100 * time.Millisecond)
		}
		b.controls["n1"].set(Off, nil)
		b.controls["n1"].give(first, true)
		after(time.Minute)
		b.is(t, "n1", Off)
		b.is(t, "n2", Off)
		if observed := b.Observe("n1"); !observed.Verified || !observed.Trusted {
			t.Errorf("n1: %+v", observed)
		}
		if observed := b.Observe("n2"); observed.Verified || observed.Trusted {
			t.Errorf("n2: %+v", observed)
		}
	})
}

// The config may trust a controller that cannot be verified; it is not verified by that.
func TestUnverifiedMayBeTrusted(t *testing.T) {
	machine := &config.Machine{Name: "n1", BMC: &config.BMC{AllowUnverified: true}}
	p := &Poller{watched: map[string]*watched{"n1": {machine: machine, history: history{
		reading: Reading{State: On}, readings: 1, first: time.Now(), last: time.Now(),
	}}}, settings: config.Power{StaleAfter: 3}}
	p.settings.Interval.Duration = time.Minute
	if observed := p.Observe("n1"); observed.Verified || !observed.Trusted {
		t.Errorf("%+v", observed)
	}
}
