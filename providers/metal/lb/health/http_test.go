package health

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"
)

// serve runs a kube-proxy of which the test says what it answers, and returns where it is and how many connections it got.
func serve(t *testing.T, statuses map[string]int) (at netip.AddrPort, connections *atomic.Int64, server *httptest.Server) {
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			w.WriteHeader(http.StatusOK)
			return
		}
		if status := statuses[r.URL.Path]; status == http.StatusFound {
			http.Redirect(w, r, "/moved", status)
		} else {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"lastUpdated": "now", "nodeEligible": true}`))
		}
	}))
	connections = &atomic.Int64{}
	server.Listener = &countingListener{server.Listener, connections}
	server.Start()
	t.Cleanup(server.Close)
	return netip.MustParseAddrPort(server.Listener.Addr().String()), connections, server
}

func TestAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		healthz, livez int
		kubeProxy      bool
		want           answer
	}{
		"well":                                    {200, 200, true, welcoming},
		"being removed":                           {503, 200, true, leaving},
		"not working":                             {503, 503, true, refusing},
		"something else than kube-proxy":          {404, 404, true, refusing},
		"no local endpoints":                      {503, 200, false, refusing},
		"local endpoints":                         {200, 0, false, welcoming},
		"a redirect leads nowhere":                {http.StatusFound, 503, true, refusing},
		"a redirect of a node port leads nowhere": {http.StatusFound, 200, false, refusing},
	} {
		t.Run(name, func(t *testing.T) {
			at, _, _ := serve(t, map[string]int{"/healthz": test.healthz, "/livez": test.livez})
			asker := newHTTPAsker()
			defer asker.close()
			if got := asker.ask(t.Context(), at, test.kubeProxy, 5*time.Second); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestConnectionsAreKept(t *testing.T) {
	at, connections, server := serve(t, map[string]int{"/healthz": 200})
	asker := newHTTPAsker()
	defer asker.close()
	for range 50 {
		if got := asker.ask(t.Context(), at, true, 5*time.Second); got != welcoming {
			t.Fatal(got)
		}
	}
	if got := connections.Load(); got != 1 {
		t.Errorf("50 probes took %d connections", got)
	}
	server.CloseClientConnections() // kube-proxy is restarted
	if got := asker.ask(t.Context(), at, true, 5*time.Second); got != welcoming {
		t.Errorf("after the connection was closed: %s", got)
	}
}

// TestConnectionsThatCannotBeKept has a server that ends its connections, and one with an answer that goes on and on.
func TestConnectionsThatCannotBeKept(t *testing.T) {
	for name, serve := range map[string]http.HandlerFunc{
		"closed":  func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") },
		"endless": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) },
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(serve)
			defer server.Close()
			asker := newHTTPAsker()
			defer asker.close()
			for range 3 {
				at := netip.MustParseAddrPort(server.Listener.Addr().String())
				if got := asker.ask(t.Context(), at, true, 5*time.Second); got != welcoming {
					t.Errorf("%s", got)
				}
			}
		})
	}
}

func TestAskingEndsWithItsContext(t *testing.T) {
	hanging := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hanging }))
	defer server.Close()
	defer close(hanging)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	asker := newHTTPAsker()
	defer asker.close()
	began := time.Now()
	if got := asker.ask(ctx, netip.MustParseAddrPort(server.Listener.Addr().String()), true, time.Minute); got != silent {
		t.Error(got)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it went on for %s", took)
	}
}

func TestSilence(t *testing.T) {
	hanging := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hanging }))
	defer server.Close()
	defer close(hanging)
	asker := newHTTPAsker()
	defer asker.close()
	began := time.Now()
	at := netip.MustParseAddrPort(server.Listener.Addr().String())
	if got := asker.ask(t.Context(), at, true, 100*time.Millisecond); got != silent {
		t.Errorf("a server that hangs: %s", got)
	}
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("it was waited for for %s", took)
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	if got := asker.ask(t.Context(), netip.MustParseAddrPort(gone.Listener.Addr().String()), true, 5*time.Second); got != closed {
		t.Errorf("a closed port: %s", got)
	}
}
