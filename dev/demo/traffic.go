package demo

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mooring-ccm/mooring/dev/netlab"
)

const (
	// pace is the time between two requests to one URL.
	pace = 25 * time.Millisecond
	// requestPatience is after what time a request counts as lost when a machine dies, and longest after what time the client gives
	// it up: on a busy machine an answer may take longer than the one and not than the other.
	requestPatience = time.Second
	longest         = 5 * time.Second
)

// answer is what became of one request.
type answer struct {
	at   time.Time
	took time.Duration
	// server is who answered, and client whom it saw; empty if the request was lost.
	server, client string
	err            error
}

// traffic is a client that is at work.
type traffic struct {
	mu      sync.Mutex
	answers []answer
	// open are the requests that wait for an answer, and when they were sent.
	open map[*answer]time.Time
}

// send sends short requests from a host until the demo ends, each over a connection of its own.
func (s *environment) send(from *netlab.Host, urls ...string) *traffic {
	sent := &traffic{open: map[*answer]time.Time{}}
	connect := func(ctx context.Context, network, address string) (net.Conn, error) {
		return from.Dial(ctx, s.ports.Dialer(), network, address)
	}
	http := &http.Client{Timeout: longest, Transport: &http.Transport{DisableKeepAlives: true, DialContext: connect}}
	for _, url := range urls {
		s.background.Go(func() {
			ticker := time.NewTicker(pace)
			defer ticker.Stop()
			var pending sync.WaitGroup
			defer pending.Wait()
			for {
				select {
				case <-ticker.C:
					pending.Go(func() { sent.request(s.life, http, url) })
				case <-s.life.Done():
					return
				}
			}
		})
	}
	return sent
}

func (t *traffic) request(ctx context.Context, client *http.Client, url string) {
	one := &answer{at: time.Now()}
	t.mu.Lock()
	t.open[one] = one.at
	t.mu.Unlock()
	one.server, one.client, one.err = get(ctx, client, url)
	one.took = time.Since(one.at)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, one)
	t.answers = append(t.answers, *one)
}

// waiting returns how many requests that were sent before a time still wait for an answer.
func (t *traffic) waiting(before time.Time) (count int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, at := range t.open {
		if at.Before(before) {
			count++
		}
	}
	return count
}

func get(ctx context.Context, client *http.Client, url string) (server, saw string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", "", err
	}
	_, err = fmt.Sscan(string(body), &server, &saw)
	return server, saw, err
}

// awaitAnswers waits until many requests in a row are answered, all of them sent from now on, and returns those. What was sent before them
// is answered or lost then.
func (t *traffic) awaitAnswers(ctx context.Context) (last []answer, err error) {
	began := time.Now()
	err = awaitCloud(ctx, func() error {
		last = t.since(began)
		last = last[max(0, len(last)-answeredInARow):]
		failed := failedOf(last)
		switch {
		case len(failed) > 0:
			return fmt.Errorf("%d of the last %d requests were lost, for example with: %w", len(failed), len(last), failed[0].err)
		case len(last) < answeredInARow:
			return fmt.Errorf("%d of %d requests were answered", len(last), answeredInARow)
		}
		if waiting := t.waiting(last[0].at); waiting > 0 {
			return fmt.Errorf("%d earlier requests wait for an answer", waiting)
		}
		return nil
	})
	return last, err
}

// since returns what became of the requests that were sent after a time, in the order of the answers.
func (t *traffic) since(began time.Time) (answers []answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, one := range t.answers {
		if one.at.After(began) {
			answers = append(answers, one)
		}
	}
	return answers
}

// lost returns the requests that were sent after a time and not answered in time, and how many were sent.
func (t *traffic) lost(began time.Time) (lost []answer, sent int) {
	all := t.since(began)
	late := func(one answer) bool { return one.err != nil || one.took > requestPatience }
	return slices.DeleteFunc(slices.Clone(all), func(one answer) bool { return !late(one) }), len(all)
}

// failed returns the requests that were sent after a time and not answered at all, and how many were sent.
func (t *traffic) failed(began time.Time) (failed []answer, sent int) {
	all := t.since(began)
	return failedOf(all), len(all)
}

func failedOf(answers []answer) []answer {
	return slices.DeleteFunc(slices.Clone(answers), func(one answer) bool { return one.err == nil })
}

// window is the time from the first to the last of some requests.
func window(some []answer) time.Duration {
	if len(some) == 0 {
		return 0
	}
	earlier := func(a, b answer) int { return a.at.Compare(b.at) }
	return slices.MaxFunc(some, earlier).at.Sub(slices.MinFunc(some, earlier).at)
}
