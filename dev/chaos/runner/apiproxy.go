package runner

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/dev/chaos/schedule"
	"github.com/mooring-ccm/mooring/dev/faults/httpfault"
	"github.com/mooring-ccm/mooring/dev/harness"
)

// apiProxy is the API server as one replica sees it.
type apiProxy struct {
	replica *replica
	record  *record
	faults  *faults
	forward *httputil.ReverseProxy

	mu sync.Mutex
	// cut ends the requests under way, and blocked refuses new ones.
	cut     context.CancelFunc
	current context.Context
	blocked bool
}

func newAPIProxy(r *replica, record *record, faults *faults, target *url.URL, transport http.RoundTripper) *apiProxy {
	p := &apiProxy{replica: r, record: record, faults: faults, forward: httputil.NewSingleHostReverseProxy(target)}
	p.current, p.cut = context.WithCancel(context.Background())
	p.forward.Transport, p.forward.FlushInterval = transport, -1
	p.forward.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	p.forward.ModifyResponse = p.noteLease
	return p
}

// Cut ends all requests under way.
func (p *apiProxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
	p.current, p.cut = context.WithCancel(context.Background())
}

// Block refuses all requests, or no longer.
func (p *apiProxy) Block(blocked bool) {
	p.mu.Lock()
	p.blocked = blocked
	p.mu.Unlock()
	p.Cut()
}

// request is what a request to the API server is about.
type request struct{ verb, resource, name string }

// readAPI says what a write is.
func readAPI(r *http.Request) request {
	verbs := map[string]string{
		http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	parts = parts[min(2, len(parts)):] // api/v1, or apis/GROUP and a version
	if strings.HasPrefix(r.URL.Path, "/apis/") {
		parts = parts[min(1, len(parts)):]
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	found := request{verb: verbs[r.Method]}
	if len(parts) > 0 {
		found.resource = parts[0]
	}
	if len(parts) > 1 {
		found.name = parts[1]
	}
	if len(parts) > 2 {
		found.resource += "-" + parts[2]
	}
	return found
}

// acts says whether the request is a write of a leader: reviews of other clients, events and leases are not.
func (r request) acts() bool {
	return r.verb != "" && (strings.HasPrefix(r.resource, "nodes") || strings.HasPrefix(r.resource, "services"))
}

func (p *apiProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	current, blocked := p.current, p.blocked
	p.mu.Unlock()
	if blocked {
		panic(http.ErrAbortHandler)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(current, cancel)()
	r = r.WithContext(ctx)

	asked := readAPI(r)
	if asked.acts() {
		p.record.checker.Wrote(p.record.now(), p.replica.name, asked.verb+"-"+asked.resource, asked.name)
	}
	point := asked.verb + "-" + asked.resource
	if asked.verb != "" && p.replica.dies(point, schedule.Before) {
		panic(http.ErrAbortHandler)
	}
	if hit := p.faults.ofAPI(); hit != nil && asked.acts() {
		refuseAPI(w, hit.Number(schedule.ArgCode))
		return
	}
	if asked.verb != "" && p.replica.armed(point, schedule.After) {
		p.forward.ServeHTTP(httptest.NewRecorder(), r)
		p.replica.dies(point, schedule.After)
		panic(http.ErrAbortHandler)
	}
	p.forward.ServeHTTP(w, r)
}

func refuseAPI(w http.ResponseWriter, status int) {
	reason := map[int]string{http.StatusConflict: "Conflict", http.StatusTooManyRequests: "TooManyRequests"}[status]
	body := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"as the schedule says","reason":"` + reason + `"}`
	httpfault.Answer{Status: status, Body: body, RetryAfter: time.Second}.Write(w)
}

// noteLease has the checker know who has the lease before the replica itself does.
func (p *apiProxy) noteLease(response *http.Response) error {
	r := response.Request
	asked := readAPI(r)
	if asked.verb == "" || asked.resource != "leases" || response.StatusCode >= http.StatusMultipleChoices || asked.name != harness.Lease && asked.name != "" {
		return nil
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	lease, is := object.(*coordinationv1.Lease)
	if err != nil || !is || lease.Name != harness.Lease {
		return nil // what is no lease is passed on as it is
	}
	if ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
		p.record.checker.Leads("")
	} else {
		p.record.checker.Leads(p.replica.name)
		p.replica.clock.note(ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time, time.Now())
	}
	return nil
}
