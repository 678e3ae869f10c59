package power

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mooring-ccm/mooring/dev/bmc/redfishsim"
	"github.com/mooring-ccm/mooring/dev/bmc/redfishtest"
	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// file writes a file and returns its path.
func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	rewrite(t, path, content)
	return path
}

func rewrite(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
}

// open returns a reader that is closed when the test ends.
func open(t *testing.T, machine *config.Machine) Reader {
	t.Helper()
	reader, err := NewReader(machine)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := reader.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return reader
}

// secret is the password that must not be in any message.
const secret = "correct-horse-battery"

// expect reads once and compares. The want of an error is a part of its text.
func expect(t *testing.T, reader Reader, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	reading, err := reader.Read(ctx)
	state := reading.State
	switch {
	case err != nil && (!strings.Contains(err.Error(), want) || state != Unknown):
		t.Errorf("%s, %v; want %s", state, err, want)
	case err == nil && state.String() != want:
		t.Errorf("%s, want %s", state, want)
	case err != nil && strings.Contains(err.Error(), secret):
		t.Errorf("the error holds the password: %v", err)
	}
}

const uuid1, uuid2 = "00112233-4455-6677-8899-aabbccddeeff", "30112233-4455-6677-8899-aabbccddeeff"

// redfishMachine is a machine whose BMC is a service of redfishsim.
func redfishMachine(t *testing.T, service *redfishsim.Service) *config.Machine {
	t.Helper()
	url, caFile := redfishtest.Start(t, service)
	return &config.Machine{Name: "n1", ID: "n1", BMC: &config.BMC{
		Redfish:     &config.Redfish{Endpoint: url, CAFile: caFile, Auth: config.RedfishSession},
		Credentials: &config.Credentials{Username: "admin", PasswordFile: file(t, secret+"\n")},
	}}
}

func TestRedfishStates(t *testing.T) {
	service := redfishsim.New("admin", secret, redfishsim.System{ID: "1"})
	reader := open(t, redfishMachine(t, service))
	for _, test := range []struct{ said, want string }{
		{"On", "on"}, {"Off", "off"}, {"PoweringOn", "on"}, {"PoweringOff", "on"}, {"Paused", "on"}, {"", "unknown"}, {"off", "unknown"},
	} {
		service.SetPower("1", test.said)
		expect(t, reader, test.want)
	}
}

// The service is asked for one thing for each reading, by one session.
func TestRedfishAsksForLittle(t *testing.T) {
	service := redfishsim.New("admin", secret, redfishsim.System{ID: "1"})
	machine := redfishMachine(t, service)
	reader, err := NewReader(machine)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		expect(t, reader, "on")
	}
	want := map[string]int{
		"GET /redfish/v1/": 1, "POST /redfish/v1/SessionService/Sessions": 1, "GET /redfish/v1/Systems": 1, "GET /redfish/v1/Systems/1": 5,
	}
	if got := service.Requests(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("requests %v, want %v", got, want)
	}
	if err := reader.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if open, begun := service.Sessions(); open != 0 || begun != 1 {
		t.Errorf("%d of %d sessions are open after Close", open, begun)
	}
}

func TestRedfishFindsTheSystem(t *testing.T) {
	three := []redfishsim.System{
		{ID: "a", UUID: "11111111-1111-1111-1111-111111111111"}, {ID: "b", UUID: uuid1, Power: redfishsim.Off},
		{ID: "c", UUID: "22222222-2222-2222-2222-222222222222"},
	}
	for name, test := range map[string]struct {
		systems      []redfishsim.System
		id, uuid     string
		want, system string
	}{
		"the only one":               {three[1:2], "", "", "off", ""},
		"by its ID":                  {three, "b", "", "off", ""},
		"by its UUID":                {three, "", uuid1, "off", ""},
		"by its UUID in other order": {three, "", "33221100-5544-7766-8899-aabbccddeeff", "off", ""},
		"by nothing":                 {three, "", "", `the service has the systems ["a" "b" "c"]: set systemID`, ""},
		"by an unknown UUID":         {three, "", uuid2, "none of the systems", ""},
		"by an unknown ID":           {three, "d", "", "GET /redfish/v1/Systems/d: 404 Not Found", ""},
		"none":                       {nil, "", "", "the service has no system", ""},
	} {
		t.Run(name, func(t *testing.T) {
			machine := redfishMachine(t, redfishsim.New("admin", secret, test.systems...).WithPages(2))
			machine.SystemUUID, machine.BMC.Redfish.SystemID = test.uuid, test.id
			expect(t, open(t, machine), test.want)
		})
	}
}

func TestRedfishSurvivesChanges(t *testing.T) {
	service := redfishsim.New("admin", secret, redfishsim.System{ID: "1"})
	machine := redfishMachine(t, service)
	reader := open(t, machine)
	expect(t, reader, "on")
	service.ForgetSessions()
	expect(t, reader, "on")
	service.Rename("1", "Self")
	expect(t, reader, "404 Not Found")
	expect(t, reader, "on")
	service.SetPassword("another")
	expect(t, reader, "401 Unauthorized: the controller refuses the credentials")
	rewrite(t, machine.BMC.Credentials.PasswordFile, "another")
	expect(t, reader, "on")
	rewrite(t, machine.BMC.Credentials.PasswordFile, "wrong") // the session would do
	expect(t, reader, "the controller refuses the credentials")
	rewrite(t, machine.BMC.Credentials.PasswordFile, " \n")
	expect(t, reader, "is empty")
	rewrite(t, machine.BMC.Credentials.PasswordFile, "another")
	service.Fail(http.StatusServiceUnavailable)
	expect(t, reader, "503 Service Unavailable")
	service.Fail(0)
	end := service.Hang()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if reading, err := reader.Read(ctx); reading.State != Unknown || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a service that hangs: %s, %v", reading.State, err)
	}
	end()
	expect(t, reader, "on")
}

// A service that lets the user log in and then refuses the systems: no session is left behind, the credentials are not blamed, and the
// service is read once it has what it lacked.
func TestRedfishLeavesNoSessions(t *testing.T) {
	service := redfishsim.New("admin", secret, redfishsim.System{ID: "1"})
	service.Unlicensed(true)
	service.LimitSessions(8)
	reader, err := NewReader(redfishMachine(t, service))
	if err != nil {
		t.Fatal(err)
	}
	for range 12 {
		_, err := reader.Read(t.Context())
		if err == nil || errors.Is(err, errCredentials) || !strings.Contains(err.Error(), "403 Forbidden: the user has no right to it, or the service no license") {
			t.Fatalf("the error is %v", err)
		}
		if class, lasting := Classify(err); class != ClassRefused || !lasting {
			t.Fatalf("class %s, lasting %t", class, lasting)
		}
		if open, _ := service.Sessions(); open > 1 {
			t.Fatalf("%d sessions are open", open)
		}
	}
	service.Unlicensed(false)
	expect(t, reader, "on")
	if err := reader.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if open, _ := service.Sessions(); open != 0 {
		t.Errorf("%d sessions are left behind", open)
	}
}

func TestRedfishBasicAuth(t *testing.T) {
	service := redfishsim.New("admin", secret, redfishsim.System{ID: "1"}).WithoutSessions()
	machine := redfishMachine(t, service)
	expect(t, open(t, machine), "the service has no sessions: set auth to Basic")
	machine.BMC.Redfish.Auth = config.RedfishBasic
	reader := open(t, machine)
	expect(t, reader, "on")
	rewrite(t, machine.BMC.Credentials.PasswordFile, "wrong")
	expect(t, reader, "the controller refuses the credentials")
}

func TestRedfishVerifiesTheService(t *testing.T) {
	service := redfishsim.New("admin", secret, redfishsim.System{ID: "1"})
	machine := redfishMachine(t, service)
	genuine := machine.BMC.Redfish.CAFile
	machine.BMC.Redfish.CAFile = ""
	expect(t, open(t, machine), "certificate signed by unknown authority")
	_, machine.BMC.Redfish.CAFile = redfishtest.Start(t, service)
	machine.BMC.Redfish.CAFile = file(t, "nothing")
	reader := open(t, machine)
	expect(t, reader, "holds no PEM certificate")
	if requests := service.Requests(); len(requests) > 0 {
		t.Errorf("a service that is not verified got %v", requests)
	}
	content, err := os.ReadFile(genuine)
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, machine.BMC.Redfish.CAFile, string(content))
	expect(t, reader, "on")
	rewrite(t, machine.BMC.Redfish.CAFile, "")
	expect(t, reader, "holds no PEM certificate")
	rewrite(t, machine.BMC.Redfish.CAFile, string(content))
	machine.BMC.Redfish = &config.Redfish{Endpoint: machine.BMC.Redfish.Endpoint, Auth: config.RedfishSession, InsecureSkipVerify: true}
	expect(t, open(t, machine), "on")
}

// A service cannot send us, with its token or the password, to another one.
func TestRedfishStaysWithTheService(t *testing.T) {
	stranger := redfishsim.New("admin", secret, redfishsim.System{ID: "1"})
	elsewhere, _ := redfishtest.Start(t, stranger)
	for name, test := range map[string]struct {
		mislead http.HandlerFunc
		want    string
	}{
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere+r.URL.Path, http.StatusTemporaryRedirect)
		}, "the service redirects to another one"},
		"link": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, `{"Systems":{"@odata.id":"%s/redfish/v1/Systems"}}`, elsewhere)
		}, "the service names a resource that is not its own"},
	} {
		t.Run(name, func(t *testing.T) {
			machine := redfishMachine(t, redfishsim.New("admin", secret))
			server := newTLSServer(t, test.mislead)
			machine.BMC.Redfish = &config.Redfish{Endpoint: server, Auth: config.RedfishBasic, InsecureSkipVerify: true}
			expect(t, open(t, machine), test.want)
		})
	}
	if requests := stranger.Requests(); len(requests) > 0 {
		t.Errorf("the stranger got %v", requests)
	}
}

// sushyScript uses the emulator as OpenStack's client does: it logs in, finds the system, turns it off and says what it sees.
const sushyScript = `
import sys, sushy
url, ca, user, password = sys.argv[1:5]
auth = sushy.auth.SessionAuth(user, password)
service = sushy.Sushy(url, auth=auth, verify=ca)
system = service.get_system()
print("redfish", service.redfish_version)
print(system.identity, system.uuid, system.power_state.value)
print(len(service.get_system_collection().get_members()), "system")
system.reset_system(sushy.ResetType.FORCE_OFF)
system.refresh(force=True)
print(system.power_state.value)
auth.close()
try:
    sushy.Sushy(url, auth=sushy.auth.SessionAuth(user, "wrong"), verify=ca)
    print("accepted")
except sushy.exceptions.AccessError:
    print("refused")
try:
    basic = sushy.Sushy(url, auth=sushy.auth.BasicAuth(user, password), verify=ca)
    basic.get_system("/redfish/v1/Systems/9")
except sushy.exceptions.ResourceNotFoundError:
    print("not found")
`

// The emulator is a Redfish service in the eyes of an independent client, and our client sees what that one does.
func TestSushyAcceptsTheEmulator(t *testing.T) {
	if err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import sushy").Run(); err != nil {
		sandbox.Without(t, fmt.Sprintf("the Debian package python3-sushy is missing: %v", err))
	}
	service := redfishsim.New("admin", secret, redfishsim.System{ID: "437XR1138R2", UUID: uuid1})
	machine := redfishMachine(t, service)
	reader := open(t, machine)
	expect(t, reader, "on")
	run := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", sushyScript,
		machine.BMC.Redfish.Endpoint, machine.BMC.Redfish.CAFile, "admin", secret)
	run.Env = []string{"PATH=/usr/bin:/bin"}
	var complaint bytes.Buffer
	run.Stderr = &complaint
	output, err := run.Output()
	const want = "redfish 1.6.0\n437XR1138R2 " + uuid1 + " On\n1 system\nOff\nrefused\nnot found\n"
	if err != nil || string(output) != want {
		t.Errorf("sushy: %v\n%s%s\nwant:\n%s", err, output, complaint.String(), want)
	}
	expect(t, reader, "off")
	if open, begun := service.Sessions(); open != 1 || begun != 2 {
		t.Errorf("%d of %d sessions are open, want 1 of 2", open, begun)
	}
}
