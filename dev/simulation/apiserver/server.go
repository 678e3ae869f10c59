package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// defaultCompactAfter is how long the server answers about old versions.
const defaultCompactAfter = 10 * time.Minute

// Options say how a server behaves. The zero value is a server without faults.
type Options struct {
	// Seed draws UIDs, generated names, node ports and the durations of watches.
	Seed uint64
	// CompactAfter is how long old versions can be listed and watched: zero is ten minutes, a negative value for ever.
	CompactAfter time.Duration
	// ServiceNetworks are the networks of cluster IPs, the primary family first. The default is 10.0.0.0/16 and fd00::/112.
	ServiceNetworks []netip.Prefix
	// WithoutManagedFields leaves metadata.managedFields empty.
	WithoutManagedFields bool
	// Intercept may answer a request in place of the server, or delay it. The server answers if both results are nil. It is
	// called without a lock, so it may wait until request.Context() ends, and it may send requests of its own.
	Intercept func(request *http.Request, about Attributes) (*http.Response, error)
	// Answered may replace the answer after the server has carried out the request: a write whose answer is lost.
	Answered func(request *http.Request, about Attributes, answer *http.Response) (*http.Response, error)
	// DrawWatches lets watches last as drawn whatever their clients ask for, because clients ask for a random time.
	DrawWatches bool
	// Deliver is called before the client of a watch reads an event or a bookmark, without a lock, and may wait.
	Deliver func(about Attributes)
	// Audit is told of each request that the server carried out, in the order of the writes. It is called with the lock of the
	// server held, so it must return at once and may send no request. Objects in a record may not be changed.
	Audit func(Record)
	// Authorize says whether an identity may do something. Without it, every identity may do everything.
	Authorize func(identity string, about authorizationv1.ResourceAttributes) bool
}

// Record is one request that the server carried out.
type Record struct {
	Attributes
	// Time is when the server answered, by the clock of the bubble.
	Time time.Time
	// Code is the status code of the answer.
	Code int
	// Before and After are the object before and after a write. Before is nil for a creation, After for a deletion.
	Before, After runtime.Object
	// ResourceVersion is what the object, the list or the deletion has afterwards. A write that changed nothing keeps it.
	ResourceVersion string
	// Changed says that the request made a new version of the object.
	Changed bool
}

// Server is an API server in memory. It has no goroutine of its own. Create it in the bubble that uses it.
type Server struct {
	options Options

	mu      sync.Mutex
	version int64
	// drawn counts the draws for each purpose: what is drawn does not depend on the order of arrival.
	drawn map[string]int
	// compacted is the newest version of which the server no longer knows the state.
	compacted int64
	tables    map[string]*table
	// health has the codes that /readyz, /livez and /healthz answer.
	health   map[string]int
	managers *managers
}

// New returns a server that has the namespaces of every cluster.
func New(options Options) *Server {
	if options.CompactAfter == 0 {
		options.CompactAfter = defaultCompactAfter
	}
	if len(options.ServiceNetworks) == 0 {
		options.ServiceNetworks = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("fd00::/112")}
	}
	s := &Server{options: options, drawn: map[string]int{}, tables: map[string]*table{}, health: map[string]int{}, managers: newManagers()}
	for _, resource := range resources {
		if resource.storage == "" {
			s.tables[resource.key()] = &table{resource: resource, objects: map[objectKey]*entry{}}
		}
	}
	for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if answer := s.create(&call{Attributes: Attributes{Verb: "create", UserAgent: "kube-apiserver"}, resource: resourceOf("", "v1", "namespaces")}, namespace); answer.err != nil {
			panic(fmt.Sprintf("create the namespace %s: %v", name, answer.err)) // a mistake in this package
		}
	}
	return s
}

// Client returns a transport whose requests have an identity, as a client certificate or a token gives it.
func (s *Server) Client(identity string, groups ...string) http.RoundTripper {
	return &transport{server: s, identity: identity, groups: groups}
}

// Config returns the configuration of a client with an identity.
func (s *Server) Config(identity string, groups ...string) *rest.Config {
	return &rest.Config{Host: "http://apiserver.invalid", Transport: s.Client(identity, groups...), UserAgent: identity}
}

// Compact makes the server forget all states before the current version: watches and pages of older versions expire.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compactTo(s.version)
}

// CutWatches ends the watches that a function chooses, as a restarting server does. Without a function it ends all.
func (s *Server) CutWatches(of func(Attributes) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range resources {
		if table := s.tables[resource.key()]; table != nil {
			for _, watcher := range table.watchers {
				if of == nil || of(watcher.about) {
					watcher.end()
				}
			}
		}
	}
}

// SetHealth sets the status code of a health endpoint such as /readyz.
func (s *Server) SetHealth(path string, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.health[path] = code
}

// ResourceVersion returns the version of the newest write.
func (s *Server) ResourceVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strconv.FormatInt(s.version, 10)
}

// transport carries the requests of one client.
type transport struct {
	server   *Server
	identity string
	groups   []string
}

// RoundTrip answers a request in the goroutine that sends it.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := request.Context().Err(); err != nil {
		return nil, fmt.Errorf("send a request: %w", err)
	}
	about, problem := attributesOf(request)
	about.Identity = t.identity
	if intercept := t.server.options.Intercept; intercept != nil {
		if answer, err := intercept(request, about); answer != nil || err != nil {
			closeBody(request)
			return complete(request, answer), err
		}
	}
	body, err := readBody(request)
	if err != nil {
		return nil, err
	}
	var answer *http.Response
	if problem != nil {
		answer = errorResponse(request, problem)
	} else {
		answer = t.server.serve(&call{Attributes: about, groups: t.groups, request: request, body: body})
	}
	if replace := t.server.options.Answered; replace != nil {
		if other, err := replace(request, about, complete(request, answer)); other != nil || err != nil {
			_ = answer.Body.Close() // a watch that the client never sees
			return complete(request, other), err
		}
	}
	return complete(request, answer), nil
}

// complete fills in what http.Client expects of a response.
func complete(request *http.Request, answer *http.Response) *http.Response {
	if answer == nil {
		return nil
	}
	if answer.Body == nil {
		answer.Body = http.NoBody
	}
	if answer.Header == nil {
		answer.Header = http.Header{}
	}
	answer.Request, answer.Proto, answer.ProtoMajor, answer.ProtoMinor = request, "HTTP/1.1", 1, 1
	answer.Status = strconv.Itoa(answer.StatusCode) + " " + http.StatusText(answer.StatusCode)
	return answer
}

func closeBody(request *http.Request) {
	if request.Body != nil {
		_ = request.Body.Close() // bytes in memory
	}
}

func readBody(request *http.Request) ([]byte, error) {
	if request.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(request.Body)
	if err = errors.Join(err, request.Body.Close()); err != nil {
		return nil, fmt.Errorf("read the body of a request: %w", err)
	}
	return body, nil
}

// Text returns an answer that does not come from an API server, such as the page of a proxy.
func Text(code int, contentType, body string) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(bytes.NewReader([]byte(body))), ContentLength: int64(len(body))}
}

// StatusOf returns the answer of an API server that fails with an error, such as one that apierrors.NewConflict makes.
func StatusOf(request *http.Request, err error) *http.Response { return errorResponse(request, err) }

// serve carries out a request that was parsed.
func (s *Server) serve(c *call) *http.Response {
	c.query = c.request.URL.Query()
	c.resource = resourceOf(c.Group, c.Version, c.Resource)
	if answer := s.servePath(c); answer != nil {
		return answer
	}
	if c.resource == nil {
		return errorResponse(c.request, notFoundPath())
	}
	if err := s.authorize(c); err != nil {
		return errorResponse(c.request, err)
	}
	if err := c.negotiate(); err != nil {
		return errorResponse(c.request, err)
	}
	switch c.Verb {
	case "watch":
		return s.watch(c)
	case "list":
		if err := s.waitFor(c.request.Context(), c.query.Get("resourceVersion")); err != nil {
			return errorResponse(c.request, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := s.carryOut(c)
	response := answer.response(c)
	s.audit(c, answer, response.StatusCode)
	return response
}

// carryOut dispatches a request by its verb. The lock is held.
func (s *Server) carryOut(c *call) answer {
	if handle := s.special(c); handle != nil {
		return handle()
	}
	switch c.Verb {
	case "get":
		return s.get(c)
	case "list":
		return s.list(c)
	case "create":
		object, err := c.decode()
		if err != nil {
			return failed(err)
		}
		return s.create(c, object)
	case "update":
		return s.update(c)
	case "patch":
		return s.patch(c)
	case "delete":
		return s.delete(c)
	}
	return failed(apierrors.NewMethodNotSupported(c.resource.groupResource(), c.Verb))
}

func (s *Server) audit(c *call, answer answer, code int) {
	if s.options.Audit == nil {
		return
	}
	record := Record{Attributes: c.Attributes, Time: time.Now(), Code: code, Before: answer.before, After: answer.after, Changed: answer.changed}
	if record.Name == "" {
		record.Name = answer.name()
	}
	record.ResourceVersion = answer.resourceVersion()
	s.options.Audit(record)
}

// authorize asks the option of that name.
func (s *Server) authorize(c *call) error {
	if s.options.Authorize == nil {
		return nil
	}
	if !s.options.Authorize(c.Identity, authorizationv1.ResourceAttributes{
		Namespace: c.Namespace, Verb: c.Verb, Group: c.Group, Version: c.Version, Resource: c.Resource, Subresource: c.Subresource, Name: c.Name,
	}) {
		return apierrors.NewForbidden(c.resource.groupResource(), c.Name,
			fmt.Errorf("user %q cannot %s resource %q in API group %q", c.Identity, c.Verb, c.Resource, c.Group))
	}
	return nil
}

// tooNewWait is how long the server waits for a version that does not exist yet.
const tooNewWait = 3 * time.Second

// waitFor waits for a version as the cache of a real server does, which may lag behind another server.
func (s *Server) waitFor(ctx context.Context, version string) error {
	wanted, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return nil // said where the version is used
	}
	reached := func() (int64, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.version, s.version >= wanted
	}
	if _, ok := reached(); ok {
		return nil
	}
	timer := time.NewTimer(tooNewWait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return apierrors.NewTimeoutError("the request was ended", 0)
	case <-timer.C:
	}
	current, ok := reached()
	if ok {
		return nil
	}
	return tooLargeVersion(wanted, current)
}
