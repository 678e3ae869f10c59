package reconnect_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
)

// TestOneRequestProbesForAll lets a hundred requests wait for a minute.
func TestOneRequestProbesForAll(t *testing.T) {
	for kind, outage := range map[string]func(*http.Request) (*http.Response, error){"refused": refused, "silent": silent} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &apiServer{outage: refused}
				client := server.waiting(t, logr.Discard())
				var group sync.WaitGroup
				group.Go(func() { requireStatus(t, client, http.StatusOK) })
				synctest.Wait()
				server.stop(outage)
				for range 100 {
					group.Go(func() { requireStatus(t, client, http.StatusOK) })
				}
				time.Sleep(time.Minute)
				if _, _, requests := server.counts(); requests != 1 {
					t.Errorf("%d requests during the outage, want none but the one that found it", requests-1)
				}
				server.start("joining")
				group.Wait()
				probes, most, requests := server.counts()
				if most != 1 || probes < 10 || probes > 63 {
					t.Errorf("%d probes, %d at a time; want between 10 and 63, one at a time", probes, most)
				}
				if requests != 102 {
					t.Errorf("%d requests, want one more for each that waited", requests-1)
				}
			})
		})
	}
}

// TestProbesOfReplicasAreSpread counts the processes that probe in the same moment. All of them have seen the outage begin at once.
func TestProbesOfReplicasAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const replicas = 100
		var mu sync.Mutex
		moments := map[time.Duration]int{}
		began := time.Now()
		var group sync.WaitGroup
		for range replicas {
			server := &apiServer{outage: func(request *http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				if since := time.Since(began); request.URL.Path == "/readyz" && since > 10*time.Second {
					moments[since.Truncate(100*time.Millisecond)]++
				}
				return refused(request)
			}}
			client := server.waiting(t, logr.Discard())
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				_, _ = get(ctx, client)
			})
		}
		group.Wait()
		for moment, probes := range moments {
			if probes > replicas/4 {
				t.Errorf("%d of %d replicas probe within 100 ms, %s after the begin", probes, replicas, moment)
			}
		}
	})
}

func TestARequestWaitsNoLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{outage: silent}
		client := server.waiting(t, logr.Discard())
		for _, limit := range []time.Duration{time.Second, 20 * time.Second} {
			server.stop(refused)
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			began := time.Now()
			_, err := get(ctx, client)
			cancel()
			if took := time.Since(began); took != limit || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.ECONNREFUSED) ||
				!strings.Contains(err.Error(), syscall.ECONNREFUSED.Error()) {
				t.Errorf("error %v after %s, want the deadline and its reason after %s", err, took, limit)
			}
		}
	})
}

// TestAnotherRequestTakesOver ends the request that probes for all.
func TestAnotherRequestTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{outage: refused}
		client := server.waiting(t, logr.Discard())
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := get(ctx, client); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want that it was canceled", err)
			}
		})
		synctest.Wait()
		group.Go(func() { requireStatus(t, client, http.StatusOK) })
		server.stop(silent) // it is canceled within a probe
		time.Sleep(time.Second)
		cancel()
		synctest.Wait()
		server.start("joining")
		began := time.Now()
		group.Wait()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the other request waited for %s", took)
		}
	})
}

func TestAFailureIsReturnedAfterFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{outage: refused}
		began := time.Now()
		_, err := get(t.Context(), server.waiting(t, logr.Discard()))
		if took := time.Since(began); took != 5*time.Minute || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("error %v after %s", err, took)
		}
		if _, _, requests := server.counts(); requests != 2 {
			t.Errorf("%d requests, want one at the begin and one at the end", requests)
		}
	})
}

// TestAnswers are those of an API server that is reached.
func TestAnswers(t *testing.T) {
	only := func(path string, status int) func(*http.Request) (*http.Response, error) {
		return func(request *http.Request) (*http.Response, error) {
			if strings.HasPrefix(request.URL.Path, path) {
				return answer(status, nil), nil
			}
			return nil, nil
		}
	}
	cases := map[string]struct {
		outage   func(*http.Request) (*http.Response, error)
		status   int
		probes   int
		requests int
		within   time.Duration
	}{
		"as usual":                        {nil, http.StatusOK, 0, 1, 0},
		"no rights":                       {only("/api", http.StatusForbidden), http.StatusForbidden, 0, 1, 0},
		"client-go handles throttling":    {only("/api", http.StatusTooManyRequests), http.StatusTooManyRequests, 0, 1, 0},
		"one resource fails":              {only("/api", http.StatusServiceUnavailable), http.StatusServiceUnavailable, 1, 2, time.Second},
		"something that is no API server": {failing(http.StatusBadGateway, http.StatusNotFound), http.StatusBadGateway, 1, 2, time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &apiServer{outage: c.outage}
				began := time.Now()
				requireStatus(t, server.waiting(t, logr.Discard()), c.status)
				if took := time.Since(began); took > c.within {
					t.Errorf("the answer took %s", took)
				}
				if probes, _, requests := server.counts(); probes != c.probes || requests != c.requests {
					t.Errorf("%d probes and %d requests, want %d and %d", probes, requests, c.probes, c.requests)
				}
			})
		})
	}
}

// failing answers requests with one status, and the question for its readiness with another.
func failing(status, readiness int) func(*http.Request) (*http.Response, error) {
	return func(request *http.Request) (*http.Response, error) {
		if request.URL.Path == "/readyz" {
			return answer(readiness, nil), nil
		}
		return answer(status, nil), nil
	}
}

// TestAnAPIServerThatNeverBecomesReady may serve watches all the same.
func TestAnAPIServerThatNeverBecomesReady(t *testing.T) {
	for status, limit := range map[int]time.Duration{
		http.StatusInternalServerError: 30 * time.Second,
		http.StatusTooManyRequests:     30 * time.Second,
		http.StatusForbidden:           10 * time.Second,
		http.StatusUnauthorized:        10 * time.Second,
		http.StatusNotFound:            0,
		http.StatusServiceUnavailable:  4 * time.Minute, // which is 5 since the request was made
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &apiServer{outage: refused}
				client := server.waiting(t, logr.Discard())
				var group sync.WaitGroup
				group.Go(func() { requireStatus(t, client, http.StatusOK) })
				time.Sleep(time.Minute)
				server.stop(func(request *http.Request) (*http.Response, error) {
					if request.URL.Path == "/readyz" {
						return answer(status, nil), nil
					}
					return nil, nil
				})
				began := time.Now()
				group.Wait()
				if took := time.Since(began); took < limit || took > limit+5*time.Second {
					t.Errorf("the request was sent after %s, want %s", took, limit)
				}
			})
		})
	}
}

// TestOnlyReadsWait holds that a write fails as without a Monitor, during an outage that is known, too.
func TestOnlyReadsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{outage: refused}
		client := server.waiting(t, logr.Discard())
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _, _ = get(ctx, client) })
		synctest.Wait()
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodGet} {
			request, err := http.NewRequestWithContext(ctx, method, host+"/api/v1/nodes", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, err = client.Do(request)
			if took := time.Since(began); took != 0 || !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%s with a body: error %v after %s", method, err, took)
			}
		}
		cancel()
		group.Wait()
	})
}

// TestAnOutageIsLoggedOnce counts the lines. A request that fails while the API server is ready is none of them.
func TestAnOutageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, lines := &apiServer{}, &logged{}
		client := server.waiting(t, lines.logger())
		server.stop(failing(http.StatusServiceUnavailable, http.StatusOK))
		requireStatus(t, client, http.StatusServiceUnavailable)
		if len(lines.lines) > 0 {
			t.Errorf("logged of an API server that is ready: %q", lines.lines)
		}
		server.stop(func(request *http.Request) (*http.Response, error) {
			if request.URL.Path == "/readyz" {
				return silent(request)
			}
			return refused(request)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = get(ctx, client)
		if len(lines.lines) > 0 {
			t.Errorf("logged of a probe that was canceled: %q", lines.lines)
		}
		server.stop(refused)
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() { requireStatus(t, client, http.StatusOK) })
		}
		time.Sleep(time.Minute)
		server.start("joining")
		group.Wait()
		if len(lines.lines) != 2 || !strings.Contains(lines.lines[0], "API server unavailable") ||
			!strings.Contains(lines.lines[0], "connection refused") || !strings.Contains(lines.lines[1], "API server available again") {
			t.Errorf("logged: %q", lines.lines)
		}
	})
}

// requireStatus sends a GET that is answered.
func requireStatus(t *testing.T, client *http.Client, want int) {
	t.Helper()
	if status, err := get(t.Context(), client); err != nil || status != want {
		t.Errorf("status %d, error %v; want %d", status, err, want)
	}
}
