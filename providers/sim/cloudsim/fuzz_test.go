package cloudsim

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// FuzzRequest sends a cloud requests of all kinds. Each gets an answer in the form of the API; one that is refused changes nothing, and one
// without the token is refused.
func FuzzRequest(f *testing.F) {
	const instance = `{"name":"fuzzed","zone":"sim-1a","machineType":"sim.small","addresses":[{"type":"InternalIP","address":"10.1.0.1"}],"power":"on"}`
	const balancer = `{"name":"fuzzed","region":"sim-1","listeners":[{"name":"http","protocol":"TCP","port":80,"targetPort":30080}],"targets":[]}`
	const route = `{"cluster":"c","destination":"10.9.0.0/24","targetInstance":"i-00000001"}`
	add := func(method, path, query, match, body string) {
		f.Add(method, path, query, match, "application/json", []byte(body))
	}
	for _, path := range []string{api.PathZones, api.PathMachineTypes, api.PathInstances, api.PathLoadBalancers, api.PathRoutes, "/", "/v2/x"} {
		add(http.MethodGet, path, "limit=1", "", "")
		add(http.MethodGet, path, "pageToken=abc.1&limit=-1&limt=3", "", "")
		add(http.MethodDelete, path+"/x", "", `"1"`, "")
	}
	add(http.MethodPost, api.PathInstances, "", "", instance)
	add(http.MethodPost, api.PathInstances, "", "", strings.ReplaceAll(instance, "fuzzed", "É\\u0000"))
	add(http.MethodPut, api.PathInstances+"/i-00000001", "", `"99"`, instance)
	add(http.MethodPut, api.PathInstances+"/i-00000001", "", `1"`, `{"name":1,"x":2}`)
	add(http.MethodPost, api.PathLoadBalancers, "", "", balancer)
	add(http.MethodPost, api.PathLoadBalancers, "", "", `{"name":"a","listeners":[{"port":-1},{"port":70000}],"sourceRanges":["x","0.0.0.0/33"],"targets":[null]}`)
	add(http.MethodPost, api.PathLoadBalancers+"/a/targets", "", "", `{"add":["i-1"],"remove":["i-1"],"tags":{"a":"b"}}`)
	add(http.MethodPost, api.PathRoutes, "", "", route)
	add(http.MethodPost, api.PathRouteChanges, "", "", `{"changes":[{"create":`+route+`},{"delete":"x"},{},null]}`)
	add(http.MethodGet, api.PathInstances+"/%2e%2e%2f", "", "*", "")
	add("PATCH", "/v1//instances", "a=%zz", "", "{")
	service, err := Open(Options{StateFile: filepath.Join(f.TempDir(), "state"), Token: StaticToken("token"), Seed: DefaultSeed(3)})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = service.Close() })
	handler := service.Handler()
	serve := func(request *http.Request) *httptest.ResponseRecorder {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		return recorder
	}
	f.Fuzz(func(t *testing.T, method, path, query, match, contentType string, body []byte) {
		request := requestOf(t, method, path, query, body)
		if request == nil || strings.HasPrefix(path, "/v1/admin") || path == api.PathInstanceChanges {
			return // it is no request, or one that does not end
		}
		if answer := serve(request.Clone(t.Context())); answer.Code < 300 {
			t.Errorf("answers %d without a token", answer.Code)
		}
		request.Header.Set("Authorization", "Bearer token")
		request.Header.Set("Content-Type", contentType)
		request.Header.Set("If-Match", match)
		before := state(service)
		answer := serve(request)
		if answer.Code >= 500 {
			t.Errorf("%s %q answers %d: %s", method, path, answer.Code, answer.Body)
		}
		if answer.Code >= 300 && answer.Code < 400 { // the mux cleans paths
			return
		}
		if !json.Valid(answer.Body.Bytes()) {
			t.Errorf("%d is no JSON: %q", answer.Code, answer.Body)
		}
		checkRefusal(t, answer, len(path)+len(query)+len(match)+len(contentType)+len(body))
		if diff := cmp.Diff(before, state(service)); answer.Code >= 400 && diff != "" {
			t.Errorf("a request that was refused by %d changes the cloud:\n%s", answer.Code, diff)
		}
		tidy(serve, method, path, answer)
	})
}

// requestOf returns a request, nil if no client can send it.
func requestOf(t *testing.T, method, path, query string, body []byte) *http.Request {
	target := &url.URL{Scheme: "http", Host: "cloud.example", Path: path, RawQuery: query}
	request, err := http.NewRequestWithContext(t.Context(), method, target.String(), strings.NewReader(string(body)))
	if err != nil || !strings.HasPrefix(path, "/") {
		return nil
	}
	return request
}

// checkRefusal asserts that a refusal has a code and says in a bounded text what is wrong.
func checkRefusal(t *testing.T, answer *httptest.ResponseRecorder, sent int) {
	t.Helper()
	if answer.Code < 400 {
		return
	}
	var refused api.ErrorBody
	if err := json.Unmarshal(answer.Body.Bytes(), &refused); err != nil || refused.Error.Code == "" || refused.Error.Message == "" {
		t.Errorf("%d without a code or a message: %s, %v", answer.Code, answer.Body, err)
	}
	if answer.Body.Len() > 100*sent+20_000 {
		t.Errorf("%d bytes are refused by %d", sent, answer.Body.Len())
	}
}

// state is what a cloud holds.
func state(s *Service) any {
	s.mu.Lock()
	routes := len(s.routes.list(s.clock.Now()))
	s.mu.Unlock()
	return []any{s.LoadBalancers(), s.Instances(), routes}
}

// tidy deletes what a request has made, so the cloud does not grow.
func tidy(serve func(*http.Request) *httptest.ResponseRecorder, method, path string, answer *httptest.ResponseRecorder) {
	var made struct{ ID, Name string }
	if method != http.MethodPost || answer.Code != http.StatusOK || json.Unmarshal(answer.Body.Bytes(), &made) != nil {
		return
	}
	for _, name := range []string{made.ID, made.Name} {
		request := httptest.NewRequest(http.MethodDelete, path+"/"+url.PathEscape(name), nil)
		request.Header.Set("Authorization", "Bearer token")
		serve(request)
	}
}

// FuzzSeed asserts that a seed that is accepted is accepted again, and makes a cloud.
func FuzzSeed(f *testing.F) {
	f.Add("apiVersion: sim.mooring.dev/v1alpha1\nkind: Seed\n")
	written, err := yaml.Marshal(DefaultSeed(2))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(written))
	f.Add("zones: [{name: a}, {name: a}]\ninstances: [{name: '', zone: x, addresses: [{type: y, address: z}]}]\n")
	f.Add("[]")
	f.Fuzz(func(t *testing.T, text string) {
		seed, errs := ReadSeed([]byte(text))
		for _, err := range errs {
			if err.Field == "" || len(err.Error()) > 10_000 {
				t.Errorf("%d bytes about %q", len(err.Error()), err.Field)
			}
		}
		if (seed == nil) != (len(errs) > 0) {
			t.Fatalf("%v, %v", seed, errs)
		}
		if seed == nil {
			return
		}
		again, err := yaml.Marshal(seed)
		if err != nil {
			t.Fatal(err)
		}
		second, errs := ReadSeed(again)
		if diff := cmp.Diff(seed, second); len(errs) > 0 || diff != "" {
			t.Errorf("%q is accepted, and as %s: %v\n%s", text, again, errs, diff)
		}
	})
}

// FuzzFault asserts that a fault that is accepted is valid, and that an error quotes what is wrong.
func FuzzFault(f *testing.F) {
	for _, text := range []string{"operation=ListInstances,mode=status,status=503,count=3", "mode=hang", "", ",", "status=x", "retry-after=5s,mode=status,status=429",
		"operation=*,mode=panic,skip=-1", "a=b=c", "count=99999999999999999999"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fault, err := ParseFault(text)
		if err == nil && len(ValidateFault(fault)) > 0 {
			t.Errorf("%q is %+v, which is not valid", text, fault)
		}
		if err != nil && err.Error() == "" {
			t.Errorf("%q: no reason", text)
		}
	})
}
