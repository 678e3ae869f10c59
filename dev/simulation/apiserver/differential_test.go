package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
)

const (
	draws        = 80
	stepsOfADraw = 40
	// diffsShown bounds what a failing run prints.
	diffsShown = 12
)

// TestLikeKubernetes sends the same random requests to a real API server and to the one in memory, and compares the answers.
// MOORING_SEED and MOORING_DRAWS choose other draws.
func TestLikeKubernetes(t *testing.T) {
	cluster := localclustertest.Start(t)
	config := cluster.AdminConfig()
	config.UserAgent = "tester/v1"
	genuine := must.Value(rest.HTTPClientFor(config))(t)
	first, count := setting(t, "MOORING_SEED", 1), setting(t, "MOORING_DRAWS", draws)
	failed := 0
	for seed := first; seed < first+count && failed < diffsShown; seed++ {
		server := New(Options{Seed: uint64(seed), ServiceNetworks: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:10:96::/112")}})
		pair := &pair{
			t: t, seed: seed, random: rand.New(rand.NewPCG(uint64(seed), 1)), namespace: fmt.Sprintf("draw-%d", seed),
			real:   newSide(genuine, config.Host),
			double: newSide(&http.Client{Transport: server.Client("admin")}, "http://apiserver.invalid"),
		}
		failed += pair.run()
	}
}

func setting(t *testing.T, name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	return must.Value(strconv.Atoi(text))(t)
}

// side is one of the two servers, and what it has answered.
type side struct {
	client *http.Client
	host   string
	// last is the newest state of an object by its path, first the version that it had at first.
	last      map[string]map[string]any
	first     map[string]string
	tokens    map[string]string
	counts    map[string]int
	continues string
	start     map[string]string
}

func newSide(client *http.Client, host string) *side {
	return &side{client: client, host: host, last: map[string]map[string]any{}, first: map[string]string{}, tokens: map[string]string{}, counts: map[string]int{}, start: map[string]string{}}
}

// step is a request with placeholders in the place of what differs between the servers.
type step struct {
	method, path string
	query        url.Values
	contentType  string
	accept       string
	body         func(*side) any
	// fresh asks for the newest state first: the cache of the real server then has it.
	fresh bool
}

// pair runs a draw on both servers.
type pair struct {
	t            *testing.T
	seed         int
	random       *rand.Rand
	namespace    string
	real, double *side
	requests     []string
	generated    int
}

func (p *pair) chance(percent int) bool { return p.random.IntN(100) < percent }

func pick[T any](p *pair, all ...T) T { return all[p.random.IntN(len(all))] }

// run returns how many differences it found: one at most, because what follows a difference differs too.
func (p *pair) run() int {
	steps := []step{{method: "POST", path: "/api/v1/namespaces", body: constant(map[string]any{"metadata": map[string]any{"name": p.namespace}})}}
	for _, name := range []string{"n0", "n1"} {
		steps = append(steps, step{method: "POST", path: "/api/v1/nodes", body: constant(object{"metadata": object{"name": name}, "spec": object{"taints": p.taints()}, "status": p.nodeStatus()})})
	}
	steps = append(steps, step{method: "POST", path: p.in("", "v1", "services"), body: constant(object{"metadata": object{"name": "s1"},
		"spec": object{"type": "LoadBalancer", "ports": []any{object{"port": 80}}}})})
	for _, step := range steps {
		if p.compare(step) {
			return 1
		}
	}
	watched := []string{
		"/api/v1/nodes", "/api/v1/nodes?labelSelector=a%3D1", "/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue", "/api/v1/nodes?labelSelector=a%21%3D2",
		p.in("", "v1", "services"), p.in("", "v1", "services") + "?fieldSelector=spec.type%3DLoadBalancer", p.in("coordination.k8s.io", "v1", "leases"),
	}
	for _, path := range watched {
		for _, side := range []*side{p.real, p.double} {
			side.start[path] = side.version(p.t, path)
		}
	}
	defer p.clean()
	for range stepsOfADraw {
		if p.compare(p.draw()) {
			return 1
		}
	}
	for _, step := range p.sentinels() {
		if p.compare(step) {
			return 1
		}
	}
	for _, path := range watched {
		for _, query := range []string{"", "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "initial"} {
			if p.compareWatches(path, query) {
				return 1
			}
		}
	}
	return 0
}

func (p *pair) in(group, version, resource string) string {
	if group == "" {
		return "/api/" + version + "/namespaces/" + p.namespace + "/" + resource
	}
	return "/apis/" + group + "/" + version + "/namespaces/" + p.namespace + "/" + resource
}

func constant(object any) func(*side) any { return func(*side) any { return object } }

// compare sends a request to both servers, and says whether the answers differ.
func (p *pair) compare(step step) bool {
	if step.fresh {
		p.real.version(p.t, step.path)
	}
	realCode, realBody, realText := p.real.send(p.t, step)
	doubleCode, doubleBody, doubleText := p.double.send(p.t, step)
	p.requests = append(p.requests, fmt.Sprintf("%s %s %v %s: %d", step.method, step.path, step.query, doubleText, realCode))
	if step.path == p.in("", "v1", "services") && step.method == "POST" && realCode == 422 && doubleCode == 422 {
		realBody, doubleBody = withoutCauses(realBody), withoutCauses(doubleBody)
	}
	diff := cmp.Diff(realBody, doubleBody)
	if realCode == doubleCode && diff == "" {
		return false
	}
	p.t.Errorf("draw %d: %s\n%s %s %v\nsent %s\nreal %d, double %d\nreal: %.1500s\n- real, + double:\n%s", p.seed, p.history(step.path),
		step.method, step.path, step.query, doubleText, realCode, doubleCode, realText, diff)
	return true
}

// history returns the requests for a path.
func (p *pair) history(path string) string {
	var found []string
	for _, request := range p.requests[:len(p.requests)-1] {
		if strings.Contains(request, strings.TrimSuffix(path, "/status")) {
			found = append(found, request)
		}
	}
	return strings.Join(found[max(0, len(found)-4):], "\n")
}

// withoutCauses leaves out which fields are wrong: the API server checks Services in two layers, and stops after the first.
func withoutCauses(body any) any {
	status, ok := body.(map[string]any)
	if !ok {
		return body
	}
	if details, ok := status["details"].(map[string]any); ok {
		delete(details, "causes")
	}
	return status
}

// version returns the version of a list.
func (s *side) version(t *testing.T, path string) string {
	_, body, _ := s.raw(t, http.MethodGet, path, nil, nil)
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	must.NoError(t, json.Unmarshal(body, &list))
	return list.Metadata.ResourceVersion
}

// raw sends a request as it is.
func (s *side) raw(t *testing.T, method, path string, body []byte, header http.Header) (int, []byte, http.Header) {
	request := must.Value(http.NewRequestWithContext(t.Context(), method, s.host+path, bytes.NewReader(body)))(t)
	request.Header = header.Clone()
	if request.Header == nil {
		request.Header = http.Header{}
	}
	request.Header.Set("User-Agent", "tester/v1")
	response := must.Value(s.client.Do(request))(t)
	read := must.Value(io.ReadAll(response.Body))(t)
	must.NoError(t, response.Body.Close())
	return response.StatusCode, read, response.Header
}

// send fills in the placeholders, and returns the code and the normalized answer.
func (s *side) send(t *testing.T, step step) (code int, normalized any, sent string) {
	var body []byte
	if step.body != nil {
		object := step.body(s)
		if text, ok := object.(string); ok {
			body = []byte(text)
		} else {
			body = must.Value(json.Marshal(object))(t)
		}
		body = []byte(s.fill(string(body)))
	}
	header := http.Header{"Content-Type": {step.contentType}, "Accept": {step.accept}}
	if step.contentType == "" {
		header.Set("Content-Type", "application/json")
	}
	if step.accept == "" {
		header.Set("Accept", "application/json")
	}
	path := step.path
	if len(step.query) > 0 {
		path += "?" + s.fillQuery(step.query).Encode()
	}
	code, answer, got := s.raw(t, step.method, path, body, header)
	var decoded any
	if strings.HasPrefix(got.Get("Content-Type"), runtime.ContentTypeProtobuf) {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(answer, nil, nil)
		must.NoError(t, err)
		answer = must.Value(json.Marshal(object))(t)
	}
	if err := json.Unmarshal(answer, &decoded); err != nil {
		return code, "not JSON", string(body)
	}
	s.remember(step, decoded)
	text := string(body)
	if s.host != "http://apiserver.invalid" {
		text = string(answer)
	}
	return code, s.normalize("", decoded), text
}

// remember keeps what later requests refer to.
func (s *side) remember(step step, decoded any) {
	object, ok := decoded.(map[string]any)
	if !ok {
		return
	}
	about, _ := object["metadata"].(map[string]any)
	if token, ok := about["continue"].(string); ok {
		s.continues = token
	}
	name, _ := about["name"].(string)
	version, _ := about["resourceVersion"].(string)
	if name == "" || version == "" {
		return
	}
	path := step.path
	if step.method == http.MethodPost {
		path += "/" + name
	}
	path = strings.TrimSuffix(strings.TrimSuffix(path, "/status"), "/approval")
	s.last[path] = object
	if s.first[path] == "" {
		s.first[path] = version
	}
}

// fill puts values in the place of <rv PATH>, <oldrv PATH> and <uid PATH>.
func (s *side) fill(text string) string {
	for _, kind := range []string{"rv", "oldrv", "uid"} {
		for {
			from := strings.Index(text, "["+kind+" ")
			if from < 0 {
				break
			}
			to := from + strings.Index(text[from:], "]")
			path := text[from+len(kind)+2 : to]
			value := s.first[path]
			if about, ok := s.last[path]["metadata"].(map[string]any); ok && kind != "oldrv" {
				value, _ = about[map[string]string{"rv": "resourceVersion", "uid": "uid"}[kind]].(string)
			}
			text = text[:from] + value + text[to+1:]
		}
	}
	return text
}

func (s *side) fillQuery(query url.Values) url.Values {
	filled := url.Values{}
	for key, values := range query {
		for _, value := range values {
			if value == "[continue]" {
				value = s.continues
			}
			filled.Add(key, s.fill(value))
		}
	}
	return filled
}

// token names a value by its kind and the order in which the server showed it first.
func (s *side) token(kind, value string) string {
	key := kind + " " + value
	if s.tokens[key] == "" {
		s.counts[kind]++
		s.tokens[key] = fmt.Sprintf("%s-%d", kind, s.counts[kind])
	}
	return s.tokens[key]
}

// compareWatches compares the events of a watch up to the sentinel.
func (p *pair) compareWatches(path, query string) bool {
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	var events [2][]any
	for i, side := range []*side{p.real, p.double} {
		from := "&resourceVersion=" + side.start[path]
		switch query {
		case "":
		case "initial":
			from = ""
		default:
			from = query
		}
		events[i] = side.events(p.t, path+separator+"watch=true&timeoutSeconds=5"+from, strings.Contains(query, "sendInitialEvents"))
	}
	if diff := cmp.Diff(events[0], events[1]); diff != "" {
		p.t.Errorf("draw %d: events of %s %s\n- real, + double:\n%.6000s", p.seed, path, query, diff)
		return true
	}
	return false
}

// events reads a watch up to the sentinel, or up to the bookmark that ends the initial events.
func (s *side) events(t *testing.T, path string, toBookmark bool) []any {
	request := must.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, s.host+path, nil))(t)
	request.Header.Set("Accept", "application/json")
	response := must.Value(s.client.Do(request))(t)
	defer func() { must.NoError(t, response.Body.Close()) }()
	var all []any
	for decoder := json.NewDecoder(response.Body); ; {
		var event struct {
			Type   string
			Object map[string]any
		}
		if err := decoder.Decode(&event); err != nil {
			return append(all, "ended")
		}
		about, _ := event.Object["metadata"].(map[string]any)
		name, _ := about["name"].(string)
		if event.Type == "BOOKMARK" {
			delete(about, "resourceVersion") // it counts writes of others too
		}
		normalized := s.normalize("", event.Object)
		all = append(all, map[string]any{"type": event.Type, "object": normalized})
		if toBookmark && event.Type == "BOOKMARK" || !toBookmark && name == "sentinel" {
			return all
		}
	}
}

// clean removes what a draw left on the real server.
func (p *pair) clean() {
	merge := http.Header{"Content-Type": {"application/merge-patch+json"}}
	for _, path := range []string{"/api/v1/nodes", p.in("", "v1", "services"), "/apis/certificates.k8s.io/v1/certificatesigningrequests"} {
		_, body, _ := p.real.raw(p.t, http.MethodGet, path, nil, nil)
		var list struct {
			Items []struct{ Metadata struct{ Name string } }
		}
		must.NoError(p.t, json.Unmarshal(body, &list))
		for _, item := range list.Items {
			p.real.raw(p.t, http.MethodDelete, path+"/"+item.Metadata.Name, nil, nil)
			p.real.raw(p.t, http.MethodPatch, path+"/"+item.Metadata.Name+"/status", []byte(`{"status":{"addresses":null}}`), merge) // some are invalid
			p.real.raw(p.t, http.MethodPatch, path+"/"+item.Metadata.Name, []byte(`{"metadata":{"finalizers":null}}`), merge)
		}
	}
	p.real.raw(p.t, http.MethodDelete, "/api/v1/namespaces/"+p.namespace, nil, nil)
}

// isTime says whether a value is one that the servers take from their clocks.
func isTime(value string) bool {
	_, err := time.Parse(time.RFC3339Nano, value)
	return err == nil
}
