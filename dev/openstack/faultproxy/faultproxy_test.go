package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-ccm/mooring/dev/faults/httpfault"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// service answers with its host and counts what reaches it.
type service struct{ asked atomic.Int32 }

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprint(w, r.Host)
}

// start returns a proxy of one service, "compute", whose own address has the path /v2.1.
func start(t *testing.T) (*Proxy, *service) {
	t.Helper()
	asked := &service{}
	upstream := httptest.NewServer(asked)
	t.Cleanup(upstream.Close)
	address, err := url.Parse(upstream.URL + "/v2.1")
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := Listen(map[string]*url.URL{"compute": address}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	return proxy, asked
}

// ask makes a call and returns the answer, with its body as text.
func ask(ctx context.Context, proxy *Proxy, method, path string) (*http.Response, string, error) {
	request, err := http.NewRequestWithContext(ctx, method, proxy.URL("compute").JoinPath(path).String(), strings.NewReader("{}"))
	if err != nil {
		return nil, "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // which would try a call again that was cut off
	response, err := client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response, string(body), err
}

func TestCallsPassAndAreCounted(t *testing.T) {
	proxy, _ := start(t)
	for _, call := range [][2]string{
		{"GET", "servers/3f2b1c4d-0000-4a5b-8c7d-0123456789ab"}, {"GET", "servers/7d2b1c4d-0000-4a5b-8c7d-0123456789ab"}, {"POST", "servers"},
	} {
		response, body, err := ask(t.Context(), proxy, call[0], call[1])
		if err != nil || response.StatusCode != http.StatusAccepted {
			t.Fatalf("%v: %v, %v", call, response, err)
		}
		if host := proxy.URL("compute").Host; body != host {
			t.Errorf("the service was asked as %s, want %s, which links are made of", body, host)
		}
	}
	poll.Until(t, "three calls have ended", func(ctx context.Context) error { return proxy.Idle(ctx) })
	counts := Count(proxy.Calls())
	want := Counts{{"compute", "GET", "/v2.1/servers/{id}"}: 2, {"compute", "POST", "/v2.1/servers"}: 1}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	if got := counts.Total("compute"); got != 3 || counts.Total() != 3 || counts.Total("network") != 0 {
		t.Errorf("total %d, want 3", got)
	}
	if first := proxy.Calls()[0]; first.Status != http.StatusAccepted || first.Faulty || first.Took <= 0 {
		t.Errorf("the first call is noted as %+v", first)
	}
	if proxy.Reset(); len(proxy.Calls()) != 0 {
		t.Error("calls are left after Reset")
	}
	if proxy.URL("network") != nil {
		t.Error("a service that is not there has an address")
	}
}

func TestFaults(t *testing.T) {
	for name, test := range map[string]struct {
		effect  httpfault.Effect
		status  int // 0: no answer
		asked   int32
		headers map[string]string
	}{
		"answers":            {effect: httpfault.Answer{Status: 503}, status: 503},
		"asks to come later": {effect: httpfault.Answer{Status: 429, RetryAfter: 1500 * time.Millisecond}, status: 429, headers: map[string]string{"Retry-After": "2"}},
		"has its own body":   {effect: httpfault.Answer{Status: 409, Body: `{"faultstring": "immutable"}`}, status: 409},
		"cuts off":           {effect: httpfault.Cut},
		"cuts the answer":    {effect: httpfault.CutAnswer, asked: 1},
		"only delays":        {status: http.StatusAccepted, asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			proxy, service := start(t)
			proxy.Inject(Fault{Effect: test.effect, Latency: time.Millisecond})
			response, body, err := ask(t.Context(), proxy, "GET", "servers")
			switch {
			case test.status == 0 && !errors.Is(err, io.EOF):
				t.Errorf("got %v and %v, want that the connection is cut", response, err)
			case test.status != 0 && (err != nil || response.StatusCode != test.status):
				t.Errorf("got %v and %v, want %d", response, err, test.status)
			}
			if answer, ok := test.effect.(httpfault.Answer); ok && answer.Body != "" && body != answer.Body {
				t.Errorf("the body is %q, want %q", body, answer.Body)
			}
			for header, want := range test.headers {
				if got := response.Header.Get(header); got != want {
					t.Errorf("%s: %q, want %q", header, got, want)
				}
			}
			if got := service.asked.Load(); got != test.asked {
				t.Errorf("the service was asked %d times, want %d", got, test.asked)
			}
			poll.Until(t, "the call has ended", func(ctx context.Context) error { return proxy.Idle(ctx) })
			if call := proxy.Calls()[0]; !call.Faulty || call.Status != test.status || call.Took < time.Millisecond {
				t.Errorf("noted as %+v", call)
			}
		})
	}
}

func TestWhichCallsAreMeant(t *testing.T) {
	proxy, _ := start(t)
	remove := proxy.Inject(Fault{
		Match: Match{Service: "compute", Method: "POST", Path: regexp.MustCompile(`/servers$`)}, Skip: 1, Times: 2, Effect: httpfault.Answer{Status: 500},
	})
	proxy.Inject(Fault{Match: Match{Service: "network"}, Effect: httpfault.Answer{Status: 500}})
	statuses := func(method, path string, calls int) (got []int) {
		for range calls {
			response, _, err := ask(t.Context(), proxy, method, path)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, response.StatusCode)
		}
		return got
	}
	if diff := cmp.Diff([]int{202, 202, 202}, append(statuses("GET", "servers", 2), statuses("POST", "servers/1", 1)...)); diff != "" {
		t.Errorf("calls that do not match (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{202, 500, 500, 202}, statuses("POST", "servers", 4)); diff != "" {
		t.Errorf("one is skipped, two are meant (-want +got):\n%s", diff)
	}
	remove()
	remove = proxy.Inject(Fault{Effect: httpfault.Answer{Status: 401}})
	if got := statuses("GET", "servers", 1); got[0] != 401 {
		t.Errorf("with another fault: %d", got[0])
	}
	remove()
	if got := statuses("GET", "servers", 1); got[0] != 202 {
		t.Errorf("after it was removed: %d", got[0])
	}
	proxy.Inject(Fault{Effect: httpfault.Cut})
	if proxy.Clear(); statuses("GET", "servers", 1)[0] != 202 {
		t.Error("a fault is left after Clear")
	}
}

func TestACallHangsUntilItsClientGivesUp(t *testing.T) {
	proxy, service := start(t)
	proxy.Inject(Fault{Effect: httpfault.Hang})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := ask(ctx, proxy, "GET", "servers"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the client's own deadline", err)
	}
	poll.Until(t, "the call has ended", func(ctx context.Context) error { return proxy.Idle(ctx) })
	if service.asked.Load() != 0 {
		t.Error("the service was asked")
	}
}

func TestCloseEndsWhatHangs(t *testing.T) {
	proxy, _ := start(t)
	proxy.Inject(Fault{Effect: httpfault.Hang})
	failed := make(chan error, 1)
	go func() {
		_, _, err := ask(t.Context(), proxy, "GET", "servers")
		failed <- err
	}()
	poll.Until(t, "the call has come in", func(context.Context) error {
		return poll.Holds(len(proxy.log.Find(func(Call, bool) bool { return true })) == 1)
	})
	if err := proxy.Close(); err != nil {
		t.Error(err)
	}
	if err := <-failed; err == nil {
		t.Error("the call was answered")
	}
}

func TestAServiceThatIsDownCutsCallsOff(t *testing.T) {
	closed := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	proxy, err := Listen(map[string]*url.URL{"compute": closed}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	if response, _, err := ask(t.Context(), proxy, "GET", "servers"); err == nil {
		t.Errorf("got %v, want no answer", response.Status)
	}
}

func TestTemplate(t *testing.T) {
	for path, want := range map[string]string{
		"/v2.0/lbaas/pools/3f2b1c4d-0000-4a5b-8c7d-0123456789ab/members/7d2b1c4d-0000-4a5b-8c7d-0123456789ab": "/v2.0/lbaas/pools/{id}/members/{id}",
		"/v3/projects/0123456789abcdef0123456789abcdef":                                                       "/v3/projects/{id}",
		"/v2.1/flavors/42":     "/v2.1/flavors/{id}",
		"/v2.1/servers/detail": "/v2.1/servers/detail",
		"/":                    "/",
	} {
		if got := Template(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestDrainForgetsWhatItReturns(t *testing.T) {
	proxy, _ := start(t)
	for _, path := range []string{"/one", "/two"} {
		if _, _, err := ask(t.Context(), proxy, http.MethodGet, path); err != nil {
			t.Fatal(err)
		}
		if err := proxy.Idle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := proxy.Drain(); len(got) != 1 || got[0].Path != "/v2.1"+path {
			t.Errorf("drained %+v, want the call of %s", got, path)
		}
	}
	if left := proxy.Calls(); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}
