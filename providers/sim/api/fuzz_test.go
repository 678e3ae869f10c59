package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/internal/message"
)

// canned answers every request in the same way, and counts them.
type canned struct {
	status      int
	contentType string
	body        []byte
	asked       int
}

func (c *canned) RoundTrip(request *http.Request) (*http.Response, error) {
	if c.asked++; c.asked > 100 {
		return nil, errors.New("asked too often")
	}
	header := http.Header{"Content-Type": {c.contentType}, "Retry-After": {"7"}}
	return &http.Response{StatusCode: c.status, Header: header, Body: io.NopCloser(bytes.NewReader(c.body)), Request: request}, nil
}

func client(t *testing.T, transport http.RoundTripper) *Client {
	t.Helper()
	made, err := NewClient(ClientOptions{
		Endpoint: "http://cloud.example", Token: func() (string, error) { return "token", nil }, HTTPClient: &http.Client{Transport: transport},
	})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// checkError asserts what holds for every error of the client: it is of a type, and its text is a bounded line.
func checkError(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var refused *Error
	var invalid *AnswerError
	var incomplete *IncompleteListError
	if !errors.As(err, &refused) && !errors.As(err, &invalid) && !errors.As(err, &incomplete) {
		t.Errorf("an error of another type: %v", err)
	}
	if text := err.Error(); len(text) > maxErrorBytes+100 || text != message.Printable(text, len(text)) {
		t.Errorf("%d bytes: %q", len(text), text)
	}
}

const (
	instanceJSON = `{"id":"i-1","name":"node-1","state":"running","generation":1,"zone":"z","addresses":[{"type":"InternalIP","address":"10.0.0.1"}]}`
	balancerJSON = `{"id":"lb-1","name":"a","state":"active","generation":1}`
)

// FuzzAnswer has a cloud answer every call by the same. What the client takes is whole: nothing is without an ID, and no list is short.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		"", "{}", "[]", "null", instanceJSON, balancerJSON, `{"items":[` + instanceJSON + `],"totalCount":1}`, `{"items":[],"totalCount":0}`,
		`{"items":[` + instanceJSON + `,` + instanceJSON + `],"totalCount":2}`, `{"items":[{}],"totalCount":1}`, `{"items":null,"totalCount":0}`,
		`{"items":[` + instanceJSON + `],"totalCount":1,"nextPageToken":"again"}`, `{"items":[],"totalCount":-1}`, `{"items":[],"totalCount":1e99}`,
		`{"items":[` + instanceJSON + `],"totalCount":2000000,"nextPageToken":"more"}`, `{"items":{},"totalCount":0}`, `{"items":[1],"totalCount":1}`,
		`{"error":{"code":"notFound","message":"no such instance"}}`, `{"error":{"code":"invalid","fields":[{"field":"a","value":"\u0000","reason":"b"}]}}`,
		`{"error":{"code":"notFound","message":"` + strings.Repeat(`\u001b[2J`, 2000) + `"}}`, `{"results":[{"status":200},{"status":404,"error":{"code":"notFound"}}]}`,
		`{"id":"","name":"a","state":"b"}`, "<html>", `{"items":[` + instanceJSON, `{"results":[{"status":500,"error":{"code":"notFound"}},{"status":200}]}`,
	} {
		for _, status := range []int{200, 404, 500} {
			f.Add(status, "application/json", []byte(body))
		}
	}
	f.Add(200, "text/html\x1b", []byte("{}"))
	f.Add(429, "", []byte(nil))
	f.Fuzz(func(t *testing.T, status int, contentType string, body []byte) {
		cloud := &canned{status: 200 + (status%400+400)%400, contentType: contentType, body: body}
		if cloud.status/100 == 3 {
			cloud.status += 100 // redirects are for the library
		}
		c := client(t, cloud)
		instance, err := c.GetInstance(t.Context(), "i-1")
		if checkError(t, err); err == nil && (instance.ID == "" || instance.Name == "" || instance.State == "") {
			t.Errorf("%+v", instance)
		}
		if HasCode(err, CodeNotFound) && cloud.status != http.StatusNotFound {
			t.Errorf("status %d says that there is no such instance", cloud.status)
		}
		balancer, err := c.CreateLoadBalancer(t.Context(), LoadBalancerSpec{Name: "a"})
		if checkError(t, err); err == nil && (balancer.ID == "" || balancer.Name == "" || balancer.State == "") {
			t.Errorf("%+v", balancer)
		}
		results, err := c.ChangeRoutes(t.Context(), make([]RouteChange, 2))
		if checkError(t, err); err == nil && len(results) != 2 {
			t.Errorf("%d results", len(results))
		}
		checkLists(t, c, cloud)
	})
}

// checkLists asserts that a list has all that was announced, each element once.
func checkLists(t *testing.T, c *Client, cloud *canned) {
	t.Helper()
	lists := map[string]func(context.Context, func(string)) error{
		"instances": func(ctx context.Context, one func(string)) error {
			return c.ListInstances(ctx, func(page []Instance) error {
				for _, i := range page {
					one(i.ID)
				}
				return nil
			})
		},
		"load balancers": func(ctx context.Context, one func(string)) error {
			return c.ListLoadBalancers(ctx, map[string]string{"cluster": "x"}, func(page []LoadBalancer) error {
				for _, l := range page {
					one(l.Name)
				}
				return nil
			})
		},
		"routes": func(ctx context.Context, one func(string)) error {
			return c.ListRoutes(ctx, "x", func(page []Route) error {
				for _, r := range page {
					one(r.ID)
				}
				return nil
			})
		},
	}
	for name, list := range lists {
		cloud.asked = 0
		seen := map[string]bool{}
		err := list(t.Context(), func(id string) {
			if id == "" || seen[id] {
				t.Errorf("%s: %q is empty or listed twice", name, id)
			}
			seen[id] = true
		})
		if checkError(t, err); cloud.asked > 100 {
			t.Errorf("%s: the client asks on and on", name)
		}
	}
}

// FuzzChanges has a cloud send a stream of changes.
func FuzzChanges(f *testing.F) {
	for _, stream := range []string{
		"", "\n", "{}\n", `{"kind":"mark","revision":3}` + "\n", `{"kind":"set","revision":1,"instance":` + instanceJSON + "}\n",
		`{"kind":"set","instance":{}}` + "\n", `{"kind":"deleted","id":"i-1"}` + "\n", `{"kind":"deleted"}` + "\n", "{\"kind\":\"\\u001b\",\"id\":\"\\n\"}\n",
		`{"kind":"mark"}` + strings.Repeat(" ", 5000) + "\nnull\n", "[]\n", `{"kind":"set","revision":"x"}` + "\n",
	} {
		f.Add([]byte(stream))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		changes := 0
		c := client(t, &canned{status: 200, contentType: ContentTypeChanges, body: stream})
		err := c.WatchInstances(t.Context(), FromBeginning, func(change InstanceChange) error {
			changes++
			return change.check()
		})
		if err == nil || changes > bytes.Count(stream, []byte("\n"))+1 {
			t.Errorf("%d changes, %v", changes, err)
		}
		if text := err.Error(); len(text) > 1000 || text != message.Printable(text, len(text)) {
			t.Errorf("%d bytes: %q", len(text), text)
		}
	})
}

// endless is a cloud whose answers never end.
type endless struct{}

func (endless) RoundTrip(request *http.Request) (*http.Response, error) {
	header := http.Header{"Content-Type": {"application/json"}}
	body := io.MultiReader(strings.NewReader(`{"totalCount":1000000,"nextPageToken":"more","items":[`), &repeated{text: "{},"})
	return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(body), Request: request}, nil
}

type repeated struct {
	text string
	read int
}

func (r *repeated) Read(into []byte) (int, error) {
	for i := range into {
		into[i] = r.text[r.read%len(r.text)]
		r.read++
	}
	return len(into), nil
}

// An answer that never ends is refused when it is longer than any may be, and no page takes the memory of more elements than one has.
func TestAnswersAreBounded(t *testing.T) {
	err := client(t, endless{}).ListInstances(t.Context(), func([]Instance) error { return nil })
	var invalid *AnswerError
	if !errors.As(err, &invalid) || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("an answer without end: %v", err)
	}
	page := `{"totalCount":1000000,"items":[` + strings.Repeat("{},", maxPageItems+1) + `{}]}`
	cloud := &canned{status: 200, contentType: "application/json", body: []byte(page)}
	err = client(t, cloud).ListInstances(t.Context(), func([]Instance) error { return nil })
	if !errors.As(err, &invalid) || !strings.Contains(err.Error(), "more than 10000 elements") {
		t.Errorf("a page of many elements: %v", err)
	}
	cloud.body = []byte(`{"totalCount":1000001,"items":[],"nextPageToken":"more"}`)
	err = client(t, cloud).ListInstances(t.Context(), func([]Instance) error { return nil })
	if !errors.As(err, &invalid) || !strings.Contains(err.Error(), "at most 1000000") {
		t.Errorf("a list of many elements: %v", err)
	}
}
