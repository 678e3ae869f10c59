package metal_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/netlab"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// The program of the test is also the server behind Services and the client in front of them, each in a network of its own.
const (
	roleVariable = "MOORING_TEST_ROLE"
	roleServer   = "server"
	roleClient   = "client"
)

// servers listen here.
const serverPort = "8080"

// play is what the program does in a role.
func play(role string, args []string) error {
	if role == roleServer {
		return serve(args[0])
	}
	return request(args)
}

// serve answers with the name of the server and the address of the client.
func serve(name string) error {
	server := &http.Server{Addr: ":" + serverPort, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Fprintf(w, "%s %s", name, client)
	})}
	return server.ListenAndServe()
}

// answer is what became of one request.
type answer struct {
	// At is when it was sent, and Took the time until it was answered or lost.
	At   time.Time
	Took time.Duration
	// Server is who answered, and Client whom it saw; empty if the request failed.
	Server, Client string
	Err            string
	// ID is the request's own. Open says that it has only been sent.
	ID   int64
	Open bool
}

const (
	// pace is the time between two requests to one address.
	pace = 20 * time.Millisecond
	// patience is after what time a request counts as lost when a machine dies, and longest after what time the client gives it
	// up. On a busy machine, an answer may take longer than the one and not than the other.
	patience = time.Second
	longest  = 10 * time.Second
)

// request sends a short request to each URL again and again, each over a connection of its own, and prints what became of them.
func request(urls []string) error {
	output := json.NewEncoder(os.Stdout)
	var ports netlab.Ports
	connect := func(ctx context.Context, network, address string) (net.Conn, error) {
		return ports.Dialer().DialContext(ctx, network, address)
	}
	var mu sync.Mutex
	var requests int64
	write := func(one answer) {
		mu.Lock()
		defer mu.Unlock()
		_ = output.Encode(one)
	}
	open := func() answer {
		mu.Lock()
		defer mu.Unlock()
		requests++
		return answer{ID: requests, At: time.Now()}
	}
	for _, url := range urls {
		go func() {
			client := &http.Client{Timeout: longest, Transport: &http.Transport{DisableKeepAlives: true, DialContext: connect}}
			for range time.Tick(pace) {
				go func() {
					one := open()
					sent := one
					sent.Open = true
					write(sent)
					if err := get(client, url, &one); err != nil {
						one.Err = err.Error()
					}
					one.Took = time.Since(one.At)
					write(one)
				}()
			}
		}()
	}
	_, err := io.Copy(io.Discard, os.Stdin) // until the test closes it
	return err
}

func get(client *http.Client, url string, one *answer) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	_, err = fmt.Sscan(string(body), &one.Server, &one.Client)
	return err
}

// traffic is a client that is at work.
type traffic struct {
	mu      sync.Mutex
	answers []answer
	// open are the requests that have been sent and neither answered nor given up, by ID.
	open map[int64]time.Time
}

// self is the path of the program of the test.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	must.NoError(t, err)
	return path
}

// send starts a client on a host, until the test lifetime ends.
func send(t, lifetime *testing.T, host *sandbox.Host, urls ...string) *traffic {
	t.Helper()
	args := append(host.Args(), append([]string{self(t)}, urls...)...)
	command := exec.Command(args[0], args[1:]...)
	command.Env = append(os.Environ(), roleVariable+"="+roleClient)
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	must.NoError(t, err)
	stdout, err := command.StdoutPipe()
	must.NoError(t, err)
	must.NoError(t, command.Start())
	sent := &traffic{open: map[int64]time.Time{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			var one answer
			if json.Unmarshal(lines.Bytes(), &one) == nil {
				sent.record(one)
			}
		}
	}()
	lifetime.Cleanup(func() {
		_ = stdin.Close()
		<-done
		_ = command.Wait()
	})
	return sent
}

func (tr *traffic) record(one answer) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if one.Open {
		tr.open[one.ID] = one.At
		return
	}
	delete(tr.open, one.ID)
	tr.answers = append(tr.answers, one)
}

// waiting counts the requests that were sent before a time and have no answer yet.
func (tr *traffic) waiting(before time.Time) (count int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, at := range tr.open {
		if at.Before(before) {
			count++
		}
	}
	return count
}

// since returns what became of the requests that were sent after a time.
func (tr *traffic) since(begin time.Time) (answers []answer) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, one := range tr.answers {
		if one.At.After(begin) {
			answers = append(answers, one)
		}
	}
	return answers
}

// lost returns the requests that were sent from begin to now and not answered in time, and how many were sent.
func (tr *traffic) lost(begin time.Time) (late []answer, sent int) {
	answers := tr.since(begin)
	for _, one := range answers {
		if one.Err != "" || one.Took > patience {
			late = append(late, one)
		}
	}
	return late, len(answers)
}

// failed returns the requests that were sent from begin to now and not answered at all, and how many were sent.
func (tr *traffic) failed(begin time.Time) (failures []answer, sent int) {
	late, sent := tr.lost(begin)
	return slices.DeleteFunc(late, func(one answer) bool { return one.Err == "" }), sent
}

// outcome waits until no request waits for its answer, and returns those since begin that failed, and how many were sent.
func (tr *traffic) outcome(t *testing.T, begin time.Time) (failures []answer, sent int) {
	t.Helper()
	tr.flows(t, 50)
	until := time.Now()
	poll.Until(t, "no request waits for its answer", func(context.Context) error {
		if waiting := tr.waiting(until); waiting > 0 {
			return fmt.Errorf("%d do", waiting)
		}
		return nil
	})
	return tr.failed(begin)
}

// underWay counts the requests that had been sent and not yet answered at one of the times.
func (tr *traffic) underWay(times []time.Time) (count int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, one := range tr.answers {
		if slices.ContainsFunc(times, func(at time.Time) bool { return one.At.Before(at) && one.At.Add(one.Took).After(at) }) {
			count++
		}
	}
	return count
}

// window is how long failures go on: from the first to the last.
func window(failures []answer) time.Duration {
	var first, last time.Time
	for _, one := range failures {
		if first.IsZero() || one.At.Before(first) {
			first = one.At
		}
		if one.At.After(last) {
			last = one.At
		}
	}
	return last.Sub(first)
}

// flows lets traffic flow for a while, and returns it.
func (tr *traffic) flows(t *testing.T, count int) []answer {
	t.Helper()
	begin := time.Now()
	var answers []answer
	poll.Until(t, fmt.Sprintf("%d requests are answered", count), func(context.Context) error {
		if answers = tr.since(begin); len(answers) < count {
			return fmt.Errorf("%d are", len(answers))
		}
		return nil
	})
	return answers
}
