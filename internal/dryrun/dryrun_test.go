package dryrun

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-ccm/mooring/ccm/plan"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

func TestChangesNameEachField(t *testing.T) {
	before := `{"a": {"x/y": 1, "gone": true}, "list": [{"k": 1}, {"k": 2}], "same": [1]}`
	after := `{"a": {"x/y": 2}, "list": [{"k": 1}, {"k": 3}, {"k": 4}], "same": [1], "new": {"deep": "value"}}`
	got, err := changesBetween([]byte(before), []byte(after))
	if err != nil {
		t.Fatal(err)
	}
	want := []plan.Change{
		{Path: "/a/gone", From: true},
		{Path: "/a/x~1y", From: 1.0, To: 2.0},
		{Path: "/list/1/k", From: 2.0, To: 3.0},
		{Path: "/list/2/k", To: 4.0},
		{Path: "/new/deep", To: "value"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestIntentsEnd when they are not repeated, and begin anew when they are.
func TestIntentsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := NewRecorder()
		intent := plan.Intent{Where: plan.TheCloud, Verb: "CreateRoute", Kind: "Route", Name: "10.0.0.0/24"}
		recorder.record(intent, nil)
		began := time.Now()
		time.Sleep(kit.EventInterval)
		recorder.record(intent, nil)
		time.Sleep(kit.EventInterval)
		intents := recorder.Intents(t.Context())
		if len(intents) != 1 || !intents[0].First.Equal(began) || !intents[0].Last.Equal(began.Add(kit.EventInterval)) {
			t.Errorf("the plan is %+v, want one intent since %s", intents, began)
		}
		time.Sleep(time.Second)
		if intents := recorder.Intents(t.Context()); len(intents) != 0 {
			t.Errorf("%+v was not repeated", intents)
		}
	})
}

func TestReadOnly(t *testing.T) {
	reached := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	defer server.Close()
	client := &http.Client{Transport: ReadOnly(http.DefaultTransport)}
	for _, test := range []struct {
		method, path string
		sent         bool
	}{
		{http.MethodGet, "/api/v1/nodes", true},
		{http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", true},
		{http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews", true},
		{http.MethodPost, "/api/v1/namespaces/default/events", false},
		{http.MethodPost, "/api/v1/namespaces/kube-system/serviceaccounts/x/token", false},
		{http.MethodPatch, "/api/v1/nodes/a", false},
		{http.MethodPut, "/api/v1/nodes/a", false},
		{http.MethodDelete, "/api/v1/nodes/a", false},
	} {
		before := reached
		request, err := http.NewRequestWithContext(t.Context(), test.method, server.URL+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		if sent := reached > before; sent != test.sent || sent == errors.Is(err, ErrReadOnly) {
			t.Errorf("%s %s: sent %t, error %v; want %t", test.method, test.path, sent, err, test.sent)
		}
	}
}
