package cloudsim

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/providers/internal/strict"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/fault"
)

// maxRequestBytes bounds what a client may send: a load balancer with 5,000 targets is below 128 KiB.
const maxRequestBytes = 1 << 20

// endpoint is one operation and where it is found.
type endpoint struct {
	op      api.Operation
	pattern string
	// query are the query parameters that it knows.
	query []string
	serve func(*request) (answer, error)
	// stream, if there is one, answers instead of serve. Its error is a refusal from before the answer began.
	stream func(http.ResponseWriter, *request) error
}

// answer is what an operation says when it went well.
type answer struct {
	body any
	// generation becomes the ETag unless it is zero.
	generation int64
}

// request is a call that was admitted.
type request struct {
	*http.Request
	body  []byte
	fault *api.Fault
}

func (s *Service) endpoints() []endpoint {
	const (
		instance     = api.PathInstances + "/{id}"
		loadBalancer = api.PathLoadBalancers + "/{name}"
	)
	one := func(op api.Operation, pattern string, serve func(*request) (answer, error)) endpoint {
		return endpoint{op: op, pattern: pattern, serve: serve}
	}
	return []endpoint{
		s.paged(api.OpListZones, api.PathZones, s.listZones),
		s.paged(api.OpListMachineTypes, api.PathMachineTypes, s.listMachineTypes),
		s.paged(api.OpListInstances, api.PathInstances, s.listInstances),
		{op: api.OpWatchInstances, pattern: "GET " + api.PathInstanceChanges, query: []string{"since"}, stream: s.watchInstances},
		one(api.OpGetInstance, "GET "+instance, s.locked(s.getInstance)),
		one(api.OpGetInstanceByName, "GET "+api.PathInstanceNames+"/{name}", s.locked(s.getInstanceByName)),
		one(api.OpCreateInstance, "POST "+api.PathInstances, withBody(s, s.createInstance)),
		one(api.OpUpdateInstance, "PUT "+instance, withBody(s, s.updateInstance)),
		one(api.OpDeleteInstance, "DELETE "+instance, s.locked(s.deleteInstance)),
		s.paged(api.OpListLoadBalancers, api.PathLoadBalancers, s.listLoadBalancers, "tag"),
		one(api.OpGetLoadBalancer, "GET "+loadBalancer, s.locked(s.getLoadBalancer)),
		one(api.OpCreateLoadBalancer, "POST "+api.PathLoadBalancers, withBody(s, s.createLoadBalancer)),
		one(api.OpUpdateLoadBalancer, "PUT "+loadBalancer, withBody(s, s.updateLoadBalancer)),
		one(api.OpDeleteLoadBalancer, "DELETE "+loadBalancer, s.locked(s.deleteLoadBalancer)),
		one(api.OpChangeTargets, "POST "+loadBalancer+"/targets", withBody(s, s.changeTargets)),
		s.paged(api.OpListRoutes, api.PathRoutes, s.listRoutes, "cluster"),
		one(api.OpCreateRoute, "POST "+api.PathRoutes, withBody(s, s.createRoute)),
		one(api.OpReplaceRoute, "PUT "+api.PathRoutes+"/{id}", withBody(s, s.replaceRoute)),
		one(api.OpDeleteRoute, "DELETE "+api.PathRoutes+"/{id}", s.locked(s.deleteRoute)),
		one(api.OpChangeRoutes, "POST "+api.PathRouteChanges, s.changeRoutes),
	}
}

// paged is an operation that answers a list: the first page of what list returns now, or the page that the request has a
// token for.
func (s *Service) paged(op api.Operation, path string, list func(*request) []any, filters ...string) endpoint {
	serve := func(r *request) (answer, error) {
		query := r.URL.Query()
		size, err := pageSize(query, s.behavior.get().PageSize)
		if err != nil {
			return answer{}, err
		}
		if pageToken := query.Get("pageToken"); pageToken != "" {
			next, err := s.pages.next(op, pageToken, size)
			return answer{body: next}, err
		}
		return answer{body: s.pages.first(op, list(r), size)}, nil
	}
	return endpoint{op: op, pattern: "GET " + path, query: append(filters, "limit", "pageToken"), serve: serve}
}

// locked has an operation done with mu held.
func (s *Service) locked(do func(*request) (answer, error)) func(*request) (answer, error) {
	return func(r *request) (answer, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return do(r)
	}
}

// withBody has an operation done with the body of the request and with mu held. Misfits is what in the body does not fit, for valid.
func withBody[T any](s *Service, do func(r *request, body T, misfits field.ErrorList) (answer, error)) func(*request) (answer, error) {
	return func(r *request) (answer, error) {
		var body T
		misfits, err := r.decode(&body)
		if err != nil {
			return answer{}, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return do(r, body, misfits)
	}
}

// Handler returns the API of the cloud, the admin API included.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, e := range s.endpoints() {
		mux.HandleFunc(e.pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, e) })
	}
	for pattern, serve := range s.adminEndpoints() {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serveAdmin(w, r, serve) })
	}
	return unknownPaths(mux)
}

// unknownPaths answers in the form of the API where the mux would answer plain text, so a client can distinguish a wrong
// path from a missing resource.
func unknownPaths(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		probe := &statusProbe{header: http.Header{}}
		mux.ServeHTTP(probe, r)
		if allow := probe.header.Get("Allow"); probe.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", allow)
			refuse(w, &api.Error{Status: probe.status, Code: api.CodeMethodNotAllowed, Message: "this path is for " + allow})
			return
		}
		refuse(w, &api.Error{Status: http.StatusNotFound, Code: api.CodeUnknownPath, Message: "the API has no path " + r.URL.Path})
	})
}

// statusProbe takes what the mux would answer and keeps the status.
type statusProbe struct {
	header http.Header
	status int
}

func (p *statusProbe) Header() http.Header            { return p.header }
func (p *statusProbe) WriteHeader(status int)         { p.status = status }
func (p *statusProbe) Write(data []byte) (int, error) { return len(data), nil }

// serve admits a call, does it and answers it.
func (s *Service) serve(w http.ResponseWriter, r *http.Request, e endpoint) {
	defer s.calls.begin(e.op)()
	call, err := s.admit(r, e)
	if err != nil {
		s.refuseCall(w, e.op, err)
		return
	}
	if call.fault != nil {
		s.calls.count(e.op, func(n *api.CallCount) { n.Faulted++ })
	}
	switch hit := call.fault; {
	case hit != nil && (e.stream == nil || hit.Mode == api.FaultStatus || hit.Mode == api.FaultHang):
		s.serveFaulty(w, call, e)
		return
	case e.stream != nil:
		if err := e.stream(w, call); err != nil {
			s.refuseCall(w, e.op, err)
		}
		return
	}
	result, err := e.serve(call)
	if err != nil {
		s.refuseCall(w, e.op, err)
		return
	}
	respond(w, result)
}

// admit lets a call through the token, the quota and the latency, and says whether a fault hits it.
func (s *Service) admit(r *http.Request, e endpoint) (*request, error) {
	if err := s.authenticate(r, s.options.Token); err != nil {
		return nil, err
	}
	if wait := s.behavior.throttle(s.clock.Now()); wait > 0 {
		return nil, &api.Error{
			Status: http.StatusTooManyRequests, Code: api.CodeThrottled, RetryAfter: wait, Message: "the quota is used up",
		}
	}
	if err := checkQuery(r.URL.Query(), e.query); err != nil {
		return nil, err
	}
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	if err := s.wait(r.Context(), s.behavior.latency()); err != nil {
		return nil, err
	}
	hit, released := s.faults.Take(e.op)
	if hit != nil && hit.Mode == api.FaultHang {
		_ = fault.Hang(r.Context(), released) // the call is refused in any case
	}
	return &request{Request: r, body: body, fault: hit}, nil
}

// authenticate checks the bearer token (RFC 6750).
func (s *Service) authenticate(r *http.Request, source TokenSource) error {
	want, err := source()
	if err != nil {
		s.log.Error(err, "no token to compare with")
		return unavailable("the cloud has no token to compare with: see its log")
	}
	got, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	wantSum, gotSum := sha256.Sum256([]byte(want)), sha256.Sum256([]byte(got))
	if !ok || subtle.ConstantTimeCompare(wantSum[:], gotSum[:]) != 1 {
		return &api.Error{
			Status: http.StatusUnauthorized, Code: api.CodeUnauthenticated, Message: "the bearer token is missing or wrong",
		}
	}
	return nil
}

func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequestBytes+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxRequestBytes {
		return nil, &api.Error{
			Status: http.StatusRequestEntityTooLarge, Code: api.CodeTooLarge,
			Message: "the request is longer than " + strconv.Itoa(maxRequestBytes) + " bytes",
		}
	}
	return body, nil
}

// checkQuery refuses query parameters that an operation does not know: a filter with a typing error would be no filter.
func checkQuery(query url.Values, known []string) error {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(known, name) {
			errs = append(errs, field.Invalid(field.NewPath(name), strings.Join(query[name], ","), "unknown query parameter"))
		}
	}
	return invalid(errs)
}

// decode reads the body of a request and returns everything in it that does not fit, for valid.
func (r *request) decode(into any) (field.ErrorList, error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, invalidField("(header)", r.Header.Get("Content-Type"), "Content-Type must be application/json")
	}
	return strict.JSON(r.body, into), nil
}

// generation reads If-Match. It returns zero if the header is missing or matches anything.
func (r *request) generation() (int64, error) {
	header := r.Header.Get("If-Match")
	if header == "" || header == "*" {
		return 0, nil
	}
	text, err := strconv.Unquote(header)
	if err != nil {
		return 0, invalidField("(header)", header, "If-Match must be an ETag that this API gave")
	}
	generation, err := strconv.ParseInt(text, 10, 64)
	if err != nil || generation < 1 {
		return 0, invalidField("(header)", header, "If-Match must be an ETag that this API gave")
	}
	return generation, nil
}

// failsLater reports whether a creation is accepted and ends in state error.
func (r *request) failsLater() bool { return r.fault != nil && r.fault.Mode == api.FaultAsync }

// refuseCall answers a refusal and counts it.
func (s *Service) refuseCall(w http.ResponseWriter, op api.Operation, err error) {
	refusal := refusalOf(err)
	if refusal.Code == api.CodeInternal {
		s.log.Error(err, "call failed", "operation", op)
	}
	s.calls.count(op, func(n *api.CallCount) {
		switch refusal.Status {
		case http.StatusUnauthorized:
			n.Unauthenticated++
		case http.StatusTooManyRequests:
			n.Throttled++
		default:
			n.Failed++
		}
	})
	refuse(w, refusal)
}

// refuse writes a refusal.
func refuse(w http.ResponseWriter, refusal *api.Error) {
	if refusal.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(wholeSeconds(refusal.RetryAfter), 10))
	}
	writeJSON(w, refusal.Status, api.ErrorBody{Error: *refusal})
}

// respond writes an answer.
func respond(w http.ResponseWriter, result answer) {
	if result.generation != 0 {
		w.Header().Set("ETag", api.ETag(result.generation))
	}
	writeJSON(w, http.StatusOK, result.body)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"the answer cannot be written"}}`)
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data)
}
