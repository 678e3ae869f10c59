package reconnect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/mooring-ccm/mooring/internal/reconnect"
)

const host = "http://apiserver.example.com"

// apiServer is an API server with nodes. It is a RoundTripper, so it works in virtual time.
type apiServer struct {
	mu sync.Mutex
	// outage returns the answer to a request, nil from both if the API server answers as usual.
	outage func(*http.Request) (*http.Response, error)
	nodes  []*corev1.Node
	// watches are the open watches.
	watches []*io.PipeWriter
	// requests counts them.
	requests int
}

// refused is an API server that does not run.
func refused(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// silent is a host that is gone.
func silent(request *http.Request) (*http.Response, error) {
	<-request.Context().Done()
	return nil, request.Context().Err()
}

// answering is an API server, or a proxy before it, that answers everything with one status.
func answering(status int) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return answer(status, nil), nil }
}

func answer(status int, body any) *http.Response {
	data, _ := json.Marshal(body)
	return &http.Response{
		StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)),
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data)),
	}
}

// RoundTrip answers lists and watches of nodes.
func (s *apiServer) RoundTrip(request *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.requests++
	outage := s.outage
	s.mu.Unlock()
	if outage != nil {
		if response, err := outage(request); response != nil || err != nil {
			return response, err
		}
	}
	query := request.URL.Query()
	switch {
	case request.URL.Path == "/readyz":
		return answer(http.StatusInternalServerError, nil), nil
	case query.Get("watch") == "true" || query.Get("watch") == "1":
		return s.watch(request.Context(), query.Get("resourceVersion"), query.Get("sendInitialEvents") == "true"), nil
	default:
		return s.list(), nil
	}
}

func (s *apiServer) list() *http.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &corev1.NodeList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(1 + len(s.nodes))},
	}
	for _, node := range s.nodes {
		list.Items = append(list.Items, *node)
	}
	return answer(http.StatusOK, list)
}

// watch answers with what is newer than a resource version, and goes on until the outage or until ctx ends.
func (s *apiServer) watch(ctx context.Context, from string, initial bool) *http.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, _ := strconv.Atoi(from)
	reader, writer := io.Pipe()
	s.watches = append(s.watches, writer)
	var backlog []byte
	for _, node := range s.nodes {
		if version, _ := strconv.Atoi(node.ResourceVersion); version > known || initial {
			backlog = append(backlog, event("ADDED", node)...)
		}
	}
	if initial {
		backlog = append(backlog, event("BOOKMARK", &corev1.Node{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
			ObjectMeta: metav1.ObjectMeta{
				ResourceVersion: strconv.Itoa(1 + len(s.nodes)),
				Annotations:     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
			},
		})...)
	}
	go func() { _, _ = writer.Write(backlog) }()
	context.AfterFunc(ctx, func() { _ = writer.CloseWithError(ctx.Err()) })
	response := answer(http.StatusOK, nil)
	response.Body = reader
	return response
}

func event(kind string, node *corev1.Node) []byte {
	data, _ := json.Marshal(map[string]any{"type": kind, "object": node})
	return append(data, '\n')
}

// stop ends all watches; requests are answered by outage from now on.
func (s *apiServer) stop(outage func(*http.Request) (*http.Response, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outage = outage
	for _, writer := range s.watches {
		_ = writer.CloseWithError(io.ErrUnexpectedEOF)
	}
	s.watches = nil
}

// start ends an outage, and creates a node in the same moment.
func (s *apiServer) start(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outage = nil
	s.nodes = append(s.nodes, &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: strconv.Itoa(2 + len(s.nodes))},
	})
}

// count returns how many requests there were.
func (s *apiServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// config returns how clients reach the API server.
func (s *apiServer) config() *rest.Config { return &rest.Config{Host: host, Transport: s} }

// waiting returns a client of the API server whose requests wait.
func (s *apiServer) waiting(t *testing.T, logger logr.Logger) *http.Client {
	t.Helper()
	client, err := reconnect.New(logger).HTTPClient(s.config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// logged collects the lines of a logger.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) logger() logr.Logger {
	return funcr.New(func(_, line string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, line)
	}, funcr.Options{})
}

// get sends a GET, and returns the status of the answer.
func get(ctx context.Context, client *http.Client) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, host+"/api/v1/nodes", nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Body.Close()
}
