package managers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/mooring-ccm/mooring/dev/must"
)

// object is an object of the API as JSON has it.
type object = map[string]any

// kinds are the kinds that the managers read and write, by their resources.
var kinds = map[string]schema.GroupVersionKind{
	"nodes":                      {Version: "v1", Kind: "Node"},
	"services":                   {Version: "v1", Kind: "Service"},
	"namespaces":                 {Version: "v1", Kind: "Namespace"},
	"events":                     {Version: "v1", Kind: "Event"},
	"pods":                       {Version: "v1", Kind: "Pod"},
	"configmaps":                 {Version: "v1", Kind: "ConfigMap"},
	"leases":                     {Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"},
	"certificatesigningrequests": {Group: "certificates.k8s.io", Version: "v1", Kind: "CertificateSigningRequest"},
	"selfsubjectaccessreviews":   {Group: "authorization.k8s.io", Version: "v1", Kind: "SelfSubjectAccessReview"},
}

// apiServer stands in for the API server, with just enough of it to start a manager: it answers in JSON, and knows neither pages, finalizers nor preconditions.
type apiServer struct {
	mu      sync.Mutex
	version int
	objects map[string]map[string]object // by resource, and then by namespace and name
	watches map[*watch]bool
	away    bool
}

func newAPIServer() *apiServer {
	s := &apiServer{objects: map[string]map[string]object{}, watches: map[*watch]bool{}}
	s.put("namespaces", object{"metadata": object{"name": "kube-system"}})
	return s
}

// target is what the path of a request names.
type target struct{ resource, namespace, name, subresource string }

func targetOf(path string) target {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	skip := 2
	if parts[0] == "apis" {
		skip = 3
	}
	var t target
	parts = parts[min(skip, len(parts)):]
	if len(parts) > 2 && parts[0] == "namespaces" && kinds[parts[2]].Kind != "" {
		t.namespace, parts = parts[1], parts[2:]
	}
	for i, into := range []*string{&t.resource, &t.name, &t.subresource} {
		if i < len(parts) {
			*into = parts[i]
		}
	}
	return t
}

func (t target) key() string { return t.namespace + "/" + t.name }

// RoundTrip implements http.RoundTripper.
func (s *apiServer) RoundTrip(request *http.Request) (*http.Response, error) {
	var sent []byte
	if request.Body != nil {
		sent, _ = io.ReadAll(request.Body)
		_ = request.Body.Close()
	}
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, syscall.ECONNREFUSED
	}
	switch path := request.URL.Path; {
	case path == "/healthz" || path == "/readyz":
		return answer(http.StatusOK, "ok"), nil
	case len(strings.Split(strings.Trim(path, "/"), "/")) < 3 || strings.HasPrefix(path, "/apis/") && strings.Count(path, "/") < 4:
		return discovery(path), nil
	}
	t, query := targetOf(request.URL.Path), request.URL.Query()
	switch {
	case kinds[t.resource].Kind == "":
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound), nil
	case query.Get("watch") == "true" || query.Get("watch") == "1":
		return s.watch(request.Context(), t, query.Get("resourceVersion"), query.Get("sendInitialEvents") == "true"), nil
	case request.Method == http.MethodGet && t.name == "":
		return s.list(t), nil
	case request.Method == http.MethodPost:
		return s.create(t, decoded(sent)), nil
	}
	before, found := s.objects[t.resource][t.key()]
	switch {
	case !found:
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound), nil
	case request.Method == http.MethodDelete:
		delete(s.objects[t.resource], t.key())
		s.send(t.resource, "DELETED", before)
	case request.Method == http.MethodPatch:
		after, err := patched(t.resource, before, sent, types.PatchType(request.Header.Get("Content-Type")))
		if err != nil {
			return nil, err
		}
		s.store(t.resource, after)
	case request.Method == http.MethodPut:
		after := decoded(sent)
		if versionOf(after) != versionOf(before) {
			return failure(http.StatusConflict, metav1.StatusReasonConflict), nil
		}
		s.store(t.resource, after)
	}
	if after, found := s.objects[t.resource][t.key()]; found {
		before = after
	}
	return answer(http.StatusOK, before), nil
}

// setAway has the API server refuse connections, or not.
func (s *apiServer) setAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

// put stores an object as another client does.
func (s *apiServer) put(resource string, o object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.create(target{resource: resource}, o)
}

func (s *apiServer) create(t target, o object) *http.Response {
	if t.resource == "selfsubjectaccessreviews" {
		o["status"] = object{"allowed": true}
		return answer(http.StatusCreated, o)
	}
	meta := o["metadata"].(object)
	if t.namespace != "" {
		meta["namespace"] = t.namespace
	}
	meta["uid"] = fmt.Sprintf("uid-%d", s.version+1)
	s.store(t.resource, o)
	return answer(http.StatusCreated, o)
}

// store gives an object the next version and its place. The lock is held.
func (s *apiServer) store(resource string, o object) {
	o["apiVersion"], o["kind"] = kinds[resource].GroupVersion().String(), kinds[resource].Kind
	s.version++
	meta := o["metadata"].(object)
	meta["resourceVersion"] = strconv.Itoa(s.version)
	namespace, _ := meta["namespace"].(string)
	key := namespace + "/" + meta["name"].(string)
	_, found := s.objects[resource][key]
	if s.objects[resource] == nil {
		s.objects[resource] = map[string]object{}
	}
	s.objects[resource][key] = o
	event := "ADDED"
	if found {
		event = "MODIFIED"
	}
	s.send(resource, event, o)
}

func versionOf(o object) int {
	text, _ := o["metadata"].(object)["resourceVersion"].(string)
	version, _ := strconv.Atoi(text)
	return version
}

func (s *apiServer) list(t target) *http.Response {
	items := []object{}
	for _, o := range s.objects[t.resource] {
		items = append(items, o)
	}
	return answer(http.StatusOK, object{
		"apiVersion": kinds[t.resource].GroupVersion().String(), "kind": kinds[t.resource].Kind + "List",
		"metadata": object{"resourceVersion": strconv.Itoa(s.version)}, "items": items,
	})
}

// discovery answers what groups and resources there are.
func discovery(path string) *http.Response {
	switch path {
	case "/api":
		return answer(http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	case "/apis":
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for _, kind := range kinds {
			if version := (metav1.GroupVersionForDiscovery{GroupVersion: kind.GroupVersion().String(), Version: kind.Version}); kind.Group != "" {
				list.Groups = append(list.Groups, metav1.APIGroup{
					Name: kind.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
				})
			}
		}
		return answer(http.StatusOK, list)
	}
	version := strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/")
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version}
	namespaced := []string{"services", "events", "pods", "configmaps", "leases"}
	for resource, kind := range kinds {
		if kind.GroupVersion().String() == version {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: resource, Kind: kind.Kind, Namespaced: slices.Contains(namespaced, resource), Verbs: metav1.Verbs{"get", "list", "watch"},
			})
		}
	}
	return answer(http.StatusOK, list)
}

// watch is the body of a watch.
type watch struct {
	resource string
	mu       sync.Mutex
	more     *sync.Cond
	pending  bytes.Buffer
	err      error
}

func (w *watch) Read(into []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.pending.Len() == 0 && w.err == nil {
		w.more.Wait()
	}
	if w.err != nil {
		return 0, w.err
	}
	return w.pending.Read(into)
}

func (w *watch) Close() error { return w.end(io.EOF) }

func (w *watch) end(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	w.more.Broadcast()
	return nil
}

func (w *watch) event(kind string, o object) {
	data, _ := json.Marshal(object{"type": kind, "object": o})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending.Write(data)
	w.more.Broadcast()
}

func (s *apiServer) send(resource, kind string, o object) {
	for w := range s.watches {
		if w.resource == resource {
			w.event(kind, o)
		}
	}
}

func (s *apiServer) watch(ctx context.Context, t target, from string, initial bool) *http.Response {
	w := &watch{resource: t.resource}
	w.more = sync.NewCond(&w.mu)
	known, _ := strconv.Atoi(from)
	for _, o := range s.objects[t.resource] {
		if versionOf(o) > known || initial {
			w.event("ADDED", o)
		}
	}
	if initial {
		kind := kinds[t.resource]
		w.event("BOOKMARK", object{"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind, "metadata": object{
			"resourceVersion": strconv.Itoa(s.version), "annotations": object{metav1.InitialEventsAnnotationKey: "true"},
		}})
	}
	s.watches[w] = true
	context.AfterFunc(ctx, func() {
		_ = w.end(ctx.Err())
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watches, w)
	})
	response := answer(http.StatusOK, nil)
	response.Body = w
	return response
}

// decoded returns an object that was sent in JSON or in protobuf.
func decoded(sent []byte) object {
	o := object{}
	if json.Unmarshal(sent, &o) == nil {
		return o
	}
	typed, _, err := scheme.Codecs.UniversalDeserializer().Decode(sent, nil, nil)
	if err != nil {
		panic(err)
	}
	data, _ := json.Marshal(typed)
	_ = json.Unmarshal(data, &o)
	return o
}

func patched(resource string, before object, patch []byte, kind types.PatchType) (object, error) {
	data, _ := json.Marshal(before)
	var err error
	switch kind {
	case types.JSONPatchType:
		var operations jsonpatch.Patch
		if operations, err = jsonpatch.DecodePatch(patch); err == nil {
			data, err = operations.Apply(data)
		}
	case types.MergePatchType:
		data, err = jsonpatch.MergePatch(data, patch)
	default:
		typed, _ := scheme.Scheme.New(kinds[resource])
		data, err = strategicpatch.StrategicMergePatch(data, patch, typed)
	}
	after := object{}
	if err == nil {
		err = json.Unmarshal(data, &after)
	}
	return after, err
}

func failure(code int, reason metav1.StatusReason) *http.Response {
	return answer(code, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(code), Reason: reason})
}

func answer(status int, body any) *http.Response {
	data, _ := json.Marshal(body)
	return &http.Response{
		StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)),
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data)),
	}
}

// get reads an object into a typed one, and reports whether it exists.
func (s *apiServer) get(t *testing.T, resource, key string, into any) bool {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	o, found := s.objects[resource][key]
	if found {
		must.NoError(t, json.Unmarshal(must.Value(json.Marshal(o))(t), into))
	}
	return found
}
