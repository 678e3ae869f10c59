// Package faultproxy stands between the clients of a cloud and its services, as reverse proxies of one process: it counts calls, delays
// them, and makes those fail that a test wants to fail.
//
//	proxy, err := faultproxy.Listen(map[string]*url.URL{"compute": nova}, nil)
//	remove := proxy.Inject(faultproxy.Fault{
//		Match: faultproxy.Match{Service: "compute", Method: "POST"}, Times: 3,
//		Effect: httpfault.Answer{Status: 429, RetryAfter: 2 * time.Second},
//	})
//	before := proxy.Calls()
package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-ccm/mooring/dev/faults"
	"github.com/mooring-ccm/mooring/dev/faults/httpfault"
	"github.com/mooring-ccm/mooring/providers/sim/fault"
)

// Proxy is a reverse proxy for each of several services.
type Proxy struct {
	servers map[string]*server
	faults  *fault.Rules[request, Fault]
	log     faults.Log[Call]
}

type server struct {
	http http.Server
	url  *url.URL
	done chan struct{}
}

// Listen starts a proxy for each service, on a free port of loopback, and returns when all accept connections. The services are asked by
// means of transport, nil for a usual one. The caller must call Close.
func Listen(services map[string]*url.URL, transport http.RoundTripper) (*Proxy, error) {
	p := &Proxy{servers: map[string]*server{}, faults: fault.NewRules[request, Fault]()}
	for _, service := range slices.Sorted(maps.Keys(services)) {
		if err := p.listen(service, services[service], transport); err != nil {
			return nil, errors.Join(fmt.Errorf("listen for %s: %w", service, err), p.Close())
		}
	}
	return p, nil
}

func (p *Proxy) listen(service string, upstream *url.URL, transport http.RoundTripper) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := *upstream
	address.Host = listener.Addr().String()
	forward := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			// The header Host keeps the address of the proxy. The services write links with the address that the client used.
			r.Out.URL.Scheme, r.Out.URL.Host = upstream.Scheme, upstream.Host
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			httpfault.Abort() // a service that is down refuses connections; a proxy can do no more than cut this one off
		},
	}
	s := &server{url: &address, done: make(chan struct{})}
	s.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(service, forward, w, r) })
	p.servers[service] = s
	go func() {
		defer close(s.done)
		_ = s.http.Serve(listener) // it ends by Close
	}()
	return nil
}

// URL returns the address of a service by way of the proxy, with the path of the service's own. It is nil for a service that Listen was
// not given.
func (p *Proxy) URL(service string) *url.URL {
	s := p.servers[service]
	if s == nil {
		return nil
	}
	address := *s.url
	return &address
}

// Close ends all connections at once, hanging ones included. Closing twice is no error.
func (p *Proxy) Close() error {
	p.faults.Close()
	var errs []error
	for _, s := range p.servers {
		errs = append(errs, s.http.Close())
		<-s.done
	}
	return errors.Join(errs...)
}

// serve answers a call, or has the service answer it, and counts it.
func (p *Proxy) serve(service string, forward http.Handler, w http.ResponseWriter, r *http.Request) {
	hit, released := p.faults.Take(request{r, service})
	answer := &recorder{ResponseWriter: w}
	end := p.log.Begin(Call{
		Service: service, Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Template: Template(r.URL.Path), Faulty: hit != nil,
		Began: time.Now(),
	})
	defer end(func(call *Call) { call.Took, call.Status = time.Since(call.Began), answer.status })
	if hit == nil {
		forward.ServeHTTP(answer, r)
		return
	}
	hit.serve(answer, r, released, forward)
}

// recorder notes the status of an answer. It passes on what http.ResponseController asks for.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write notes that the status is 200 if none was written.
func (r *recorder) Write(content []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(content)
}

// Unwrap returns the writer below.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// idleProbe is how often Idle looks.
const idleProbe = 5 * time.Millisecond

// Idle waits until no call is under way.
func (p *Proxy) Idle(ctx context.Context) error {
	var underWay []Call
	err := wait.PollUntilContextCancel(ctx, idleProbe, true, func(context.Context) (bool, error) {
		underWay = p.log.Find(func(_ Call, ended bool) bool { return !ended })
		return len(underWay) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("wait until %d calls have ended: %w", len(underWay), context.Cause(ctx))
	}
	return nil
}
