package render

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-ccm/mooring/dev/demo/scenario"
)

// someCalls are of all kinds that are shown differently.
func someCalls() []scenario.Event {
	call := func(seconds int, service, method, template string, status int) scenario.Event {
		return scenario.CallSeen{At: at(time.Duration(seconds) * time.Second), Call: scenario.Call{
			Service: service, Method: method, Template: template, Status: status, Took: 250 * time.Millisecond,
		}}
	}
	return []scenario.Event{
		scenario.Opened{At: begin},
		call(1, "nova", "GET", "/servers/detail", 200), call(2, "nova", "GET", "/servers/detail", 200),
		call(3, "neutron", "PUT", "/routers/{id}", 200), call(4, "neutron", "PUT", "/routers/{id}", 200),
		call(5, "keystone", "POST", "/v3/auth/tokens", 201), call(6, "keystone", "POST", "/v3/auth/tokens", 201),
		call(7, "nova", "GET", "/servers/detail", 503), call(8, "nova", "GET", "/servers/{id}", 404),
		call(9, "nova", "GET", "/servers/{id}", 404), call(9, "keystone", "POST", "/v3/auth/tokens", 0),
	}
}

// Lines are written for what changes something or fails, and once for everything else.
func TestPlainCalls(t *testing.T) {
	var out bytes.Buffer
	plain := NewPlain(&out)
	var m scenario.Model
	for _, event := range someCalls() {
		m = m.Apply(event)
		plain.Show(event, m)
	}
	want := `
  1.00 s  nova      GET    /servers/detail  200, 0.25 s
  3.00 s  neutron   PUT    /routers/{id}  200, 0.25 s
  4.00 s  neutron   PUT    /routers/{id}  200, 0.25 s
  5.00 s  keystone  POST   /v3/auth/tokens  201, 0.25 s
  7.00 s  nova      GET    /servers/detail  503, 0.25 s
  8.00 s  nova      GET    /servers/{id}  404, 0.25 s
  9.00 s  keystone  POST   /v3/auth/tokens  no answer, 0.25 s
`
	if diff := cmp.Diff(want, "\n"+out.String()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestPictureOfCalls(t *testing.T) {
	model := modelOf(someCalls())
	want := `
API CALLS  keystone 3  neutron 2  nova 5
  nova      GET    /servers/detail  503, 0.25 s
  nova      GET    /servers/{id}  404, 0.25 s
  nova      GET    /servers/{id}  404, 0.25 s
  keystone  POST   /v3/auth/tokens  no answer, 0.25 s
`
	if got := trimLines(paint(model, Style{}, 100, 24)); !strings.Contains(got, want) {
		t.Errorf("the picture lacks%s\n%s", want, got)
	}
	if got := paint(modelOf(events()), Style{}, 100, 24); strings.Contains(got, "API CALLS") {
		t.Errorf("there are calls where none is seen:\n%s", got)
	}
}
