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

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// TestRepetitionsAreSpread counts the requests in the same moment. All of them have seen the outage begin at once.
func TestRepetitionsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests = 100
		var mu sync.Mutex
		moments := map[time.Duration]int{}
		began := time.Now()
		server := &apiServer{outage: func(request *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			if since := time.Since(began); since > 10*time.Second {
				moments[since.Truncate(100*time.Millisecond)]++
			}
			return refused(request)
		}}
		client := server.waiting(t, logr.Discard())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var group sync.WaitGroup
		for range requests {
			group.Go(func() { _, _ = get(ctx, client) })
		}
		group.Wait()
		for moment, count := range moments {
			if count > requests/4 {
				t.Errorf("%d of %d requests are repeated within 100 ms, %s after the begin", count, requests, moment)
			}
		}
		if sent := server.count(); sent < 25*requests || sent > 65*requests {
			t.Errorf("%d requests were sent in a minute, want one each one to two seconds", sent)
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

// TestAFailureIsReturned says for how long a request is repeated. A first denial, and a first overload, are no outage.
func TestAFailureIsReturned(t *testing.T) {
	for name, test := range map[string]struct {
		first, then func(*http.Request) (*http.Response, error)
		within      time.Duration
	}{
		"no answer":        {refused, refused, kit.LongestRetry},
		"a proxy":          {answering(http.StatusBadGateway), answering(http.StatusServiceUnavailable), kit.LongestRetry},
		"a failure":        {refused, answering(http.StatusInternalServerError), kit.LongestRetry},
		"an overload":      {refused, answering(http.StatusTooManyRequests), kit.LongestRetry},
		"a denial":         {refused, answering(http.StatusForbidden), kit.LongestRetry},
		"a first denial":   {answering(http.StatusForbidden), nil, 0},
		"a first overload": {answering(http.StatusTooManyRequests), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &apiServer{outage: test.first}
				client := server.waiting(t, logr.Discard())
				if test.then != nil {
					time.AfterFunc(time.Millisecond, func() { server.stop(test.then) })
				}
				began := time.Now()
				if status, err := get(t.Context(), client); status == http.StatusOK {
					t.Errorf("status %d, error %v; want the failure", status, err)
				}
				if took := time.Since(began); took < test.within || took > test.within+3*time.Second {
					t.Errorf("the failure is returned after %s, want %s", took, test.within)
				}
			})
		})
	}
}

// TestRequestsDecide has some requests fail and /readyz say that the API server is not ready, as all the time here. Requests that are answered
// do not wait, and one that failed is answered as soon as the API server does.
func TestRequestsDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{}
		fails := 2
		server.outage = func(*http.Request) (*http.Response, error) {
			server.mu.Lock()
			defer server.mu.Unlock()
			if fails--; fails < 0 {
				return nil, nil
			}
			return answer(http.StatusInternalServerError, nil), nil
		}
		client := server.waiting(t, logr.Discard())
		began := time.Now()
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() { requireStatus(t, client, http.StatusOK) })
		}
		group.Wait()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the requests took %s", took)
		}
		if sent := server.count(); sent != 12 {
			t.Errorf("%d requests were sent, want one for each and two repetitions", sent)
		}
	})
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

// TestAnOutageIsLoggedOnce counts the lines. A request that fails once is none of them.
func TestAnOutageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, lines := &apiServer{}, &logged{}
		client := server.waiting(t, lines.logger())
		server.stop(refused)
		time.AfterFunc(time.Millisecond, func() { server.stop(nil) })
		requireStatus(t, client, http.StatusOK)
		if len(lines.lines) > 0 {
			t.Errorf("logged of a request that failed once: %q", lines.lines)
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
