package power

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// lyingService answers the requests for a Redfish service one after the other, in a circle, and keeps what was asked.
type lyingService struct {
	bodies [][]byte
	status int
	header http.Header
	asked  []*http.Request
	posted []string
}

func (s *lyingService) RoundTrip(request *http.Request) (*http.Response, error) {
	body := s.bodies[len(s.asked)%len(s.bodies)]
	s.asked = append(s.asked, request)
	if request.Method == http.MethodPost {
		sent, _ := io.ReadAll(request.Body)
		s.posted = append(s.posted, string(sent))
	}
	status := s.status
	if len(s.asked) <= 2 {
		status = http.StatusOK // or nothing would come behind it
	}
	return &http.Response{
		StatusCode: status, Status: "200 \x1b[31m" + strings.Repeat("x", 100), Header: s.header, Body: io.NopCloser(bytes.NewReader(body)), Request: request,
	}, nil
}

// FuzzRedfish has a service answer with what it likes.
func FuzzRedfish(f *testing.F) {
	const root = `{"Systems":{"@odata.id":"/redfish/v1/Systems"},"Links":{"Sessions":{"@odata.id":"/redfish/v1/Sessions"}}}`
	const list = `{"Members":[{"@odata.id":"/redfish/v1/Systems/1"}]}`
	const system = `{"Id":"1","UUID":"` + uuid1 + `","PowerState":"On","@odata.etag":"W/\"1\"","Actions":{"#ComputerSystem.Reset":` +
		`{"target":"/redfish/v1/Systems/1/Actions/Reset","ResetType@Redfish.AllowableValues":["On","ForceOff"]}}}`
	add := func(root, list, system string, status int, location, etag string) {
		f.Add([]byte(root), []byte(list), []byte(system), status, location, etag)
	}
	add(root, list, system, 200, "/redfish/v1/Sessions/1", `"1"`)
	add(root, list, system, 412, "", "")
	add(root, list, system, 404, "", "")
	add(root, list, system, 302, "https://elsewhere.example/", "")
	add(root, `{"Members":[{"@odata.id":"a"},{"@odata.id":"b"}],"Members@odata.nextLink":"/redfish/v1/Systems"}`, system, 200, "", "a\nb")
	add(root, `{"Members":[{"@odata.id":"//elsewhere.example/x"}]}`, system, 200, "http://bmc.example/x", "")
	add(root, `{"Members":[`+strings.Repeat(`{"@odata.id":"/a"},`, 1100)+`{"@odata.id":"/a"}]}`, system, 200, "", "")
	add(`{"Systems":{"@odata.id":"/`+strings.Repeat("x", 5000)+`"}}`, list, system, 200, "", "")
	add("{}", "[]", "null", 500, "", "")
	add(root, list, strings.ReplaceAll(system, "/redfish/v1/Systems/1/A", "https://elsewhere.example/A"), 200, "", "")
	add(root, list, strings.ReplaceAll(system, uuid1, uuid2), 200, "", "")
	password := filepath.Join(f.TempDir(), "password")
	if err := os.WriteFile(password, []byte(secret), 0o600); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, root, list, system []byte, status int, location, etag string) {
		service := &lyingService{
			bodies: [][]byte{root, list, system}, status: 200 + (status%400+400)%400,
			header: http.Header{"Location": {location}, "Etag": {etag}, "X-Auth-Token": {"token"}},
		}
		for _, auth := range []config.RedfishAuth{config.RedfishBasic, config.RedfishSession} {
			service.asked, service.posted = nil, nil
			reader := newRedfish(config.Redfish{Endpoint: "https://bmc.example/base", Auth: auth},
				&config.Credentials{Username: "admin", PasswordFile: password}, uuid1)
			reader.http.client = &http.Client{Transport: service, CheckRedirect: stayThere}
			reading, err := reader.Read(t.Context())
			checkMessage(t, err)
			if err == nil && service.status > 299 || err != nil && reading != (Reading{}) {
				t.Errorf("status %d: %+v, %v", service.status, reading, err)
			}
			checkMessage(t, reader.change(t.Context(), byForce, uuid1))
			_ = reader.Close(t.Context())
			service.check(t)
		}
	})
}

// check asserts that a service got its due and no more: no other service learned anything, no system with another UUID was turned off,
// and the number of requests is bounded.
func (s *lyingService) check(t *testing.T) {
	t.Helper()
	const most = maxPages + maxMembers + 20
	if len(s.asked) > most {
		t.Errorf("%d requests for one reading", len(s.asked))
	}
	for _, request := range s.asked {
		if request.URL.Scheme != "https" || request.URL.Host != "bmc.example" {
			t.Errorf("asked %s", request.URL)
		}
	}
	resets := 0
	for _, body := range s.posted {
		if strings.Contains(body, forceOff) {
			resets++
		}
	}
	if resets > 2 || resets > 0 && !slices.ContainsFunc(s.bodies, isMachine) {
		t.Errorf("%d resets of systems that are none of the machine's: %s", resets, s.bodies)
	}
}

// isMachine reports whether an answer is the machine's own system.
func isMachine(body []byte) bool {
	var said system
	return json.Unmarshal(body, &said) == nil && newSystemUUID(said.UUID).Is(uuid1)
}

// checkMessage asserts what holds for every error of a reading.
func checkMessage(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if text := err.Error(); text == "" || len(text) > maxError || text != message.Printable(text, maxError) || strings.Contains(text, secret) {
		t.Errorf("%d bytes: %q", len(text), text)
	}
}

// FuzzCommandOutput has a command print what it likes.
func FuzzCommandOutput(f *testing.F) {
	for _, output := range []string{"on", "off\n", "unknown", "on " + uuid1, "off 00000000-0000-0000-0000-000000000000", "on off", "", "\x1b[2J", "ON",
		"on\x00", "on " + uuid1 + " more", strings.Repeat("on ", 2000)} {
		f.Add(output)
	}
	f.Fuzz(func(t *testing.T, output string) {
		reading, err := parseOutput("prog", output)
		if checkMessage(t, err); err != nil {
			return
		}
		again := strings.TrimSpace(fmt.Sprintf("%s %s", reading.State, reading.System))
		if parsed, err := parseOutput("prog", again); err != nil || parsed != reading {
			t.Errorf("%q is %+v, and %q is %+v, %v", output, reading, again, parsed, err)
		}
	})
}
