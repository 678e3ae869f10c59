package vcenter

import (
	"bytes"
	"crypto/tls"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mooring-ccm/mooring/dev/plugins/compare"
)

// endpoint forwards requests to the simulator and writes them down.
type endpoint struct {
	url   *url.URL
	proxy *httputil.ReverseProxy

	mu       sync.Mutex
	calls    []compare.Call
	problems []string
}

// reads are the methods of the SOAP API that change nothing of the inventory. Sessions are no part of it.
var reads = []string{
	"RetrieveServiceContent", "RetrieveProperties", "RetrievePropertiesEx", "FindByUuid", "FindByInventoryPath",
	"Login", "Logout", "SessionIsActive",
}

func newEndpoint(t testing.TB, simulator *url.URL) *endpoint {
	e := &endpoint{}
	e.proxy = &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: simulator.Scheme, Host: simulator.Host}) },
		ModifyResponse: e.check,
		Transport:      &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
	server := httptest.NewTLSServer(e)
	t.Cleanup(server.Close)
	e.url, _ = url.Parse(server.URL) // a test server's URL is one
	return e
}

func (e *endpoint) seen() ([]compare.Call, []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.calls), slices.Clone(e.problems)
}

// ServeHTTP implements http.Handler.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	call := compare.Call{Action: r.Method + " " + r.URL.Path}
	switch method := soapMethod(body); {
	case method != "":
		if call.Action = method; !slices.Contains(reads, method) {
			call.Change = method
		}
	case strings.HasPrefix(r.URL.Path, "/rest/"):
		call.Action = r.Method + " " + restKind(r.URL.Path)
	}
	e.mu.Lock()
	e.calls = append(e.calls, call)
	e.mu.Unlock()
	e.proxy.ServeHTTP(w, r)
}

// restKind drops the identifier from the path of a REST call: its end says what is asked for.
func restKind(path string) string {
	kind, _, _ := strings.Cut(path, "/id:")
	return kind
}

// soapMethod returns the name of the method that a SOAP request calls: the first element of its body. Empty for anything else.
func soapMethod(message []byte) string {
	decoder, inBody := xml.NewDecoder(bytes.NewReader(message)), false
	for {
		token, err := decoder.Token()
		if err != nil {
			return ""
		}
		if start, is := token.(xml.StartElement); is {
			if inBody {
				return start.Name.Local
			}
			inBody = start.Name.Local == "Body"
		}
	}
}

// check takes note of what the simulator cannot do.
func (e *endpoint) check(response *http.Response) error {
	if response.StatusCode < http.StatusBadRequest {
		return nil
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	soap := response.StatusCode == http.StatusInternalServerError && bytes.Contains(body, []byte("Fault"))
	if soap && !bytes.Contains(body, []byte("does not implement")) {
		return nil // a fault is an answer
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	asked := response.Request
	e.problems = append(e.problems, fmt.Sprintf("%s %s: %s: %s", asked.Method, asked.URL.Path, response.Status, body))
	return nil
}
