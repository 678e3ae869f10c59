package compute

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	"github.com/mooring-ccm/mooring/dev/plugins/compare"
)

const (
	// Project is the project that everything is in.
	Project = "test-project"
	// Region is the region that the zones are in.
	Region = "us-central1"
	// apiPath is where the API is; projectPath is what the paths of its resources begin with.
	apiPath     = "/compute/v1/"
	projectPath = apiPath + "projects/" + Project + "/"
	token       = "a-token-of-the-stand-in"
)

// Zones are the zones of the region.
var Zones = []string{"us-central1-b", "us-central1-c"}

// Cloud is the stand-in.
type Cloud struct {
	server *httptest.Server

	mu        sync.Mutex
	resources map[string]resource // by their path below the project
	calls     []compare.Call
	unknown   []string
	serial    uint64 // of IDs, addresses and operations
}

// resource is a resource of the API, as JSON decodes it.
type resource map[string]any

// New starts a cloud with a network and no instances. Close ends it.
func New() *Cloud {
	c := &Cloud{resources: map[string]resource{}}
	c.server = httptest.NewServer(c)
	c.resources["regions/"+Region] = c.named("regions/"+Region, resource{"status": "UP"})
	for _, zone := range Zones {
		c.resources["zones/"+zone] = c.named("zones/"+zone, resource{"status": "UP", "region": c.link("regions/" + Region)})
	}
	c.resources["global/networks/default"] = c.named("global/networks/default", resource{"autoCreateSubnetworks": false})
	return c
}

// Close ends the server.
func (c *Cloud) Close() { c.server.Close() }

// Launch is how the plugin finds the stand-in, and Google's libraries the metadata server.
func (c *Cloud) Launch() compare.Launch {
	config := fmt.Sprintf(`[global]
project-id = %s
local-zone = %s
multizone = true
network-name = default
subnetwork-name = default
node-tags = node
api-endpoint = %s%s
`, Project, Zones[0], c.server.URL, apiPath)
	return compare.Launch{Config: config, Env: []string{"GCE_METADATA_HOST=" + strings.TrimPrefix(c.server.URL, "http://")}}
}

// Observe implements compare.Cloud. Waiting for an operation is no call.
func (c *Cloud) Observe(context.Context) (compare.Observation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := map[string]string{}
	for where, r := range c.resources {
		record := maps.Clone(r)
		for _, volatile := range []string{"id", "selfLink"} {
			delete(record, volatile)
		}
		text, err := json.MarshalIndent(c.portable(record), "", " ")
		if err != nil {
			return compare.Observation{}, fmt.Errorf("write down %s: %w", where, err)
		}
		state[where] = string(text)
	}
	return compare.Observation{Calls: slices.Clone(c.calls), State: state, Problems: slices.Clone(c.unknown)}, nil
}

// portable returns a value without this server's address, and with its lists in order: the API promises none.
func (c *Cloud) portable(value any) any {
	switch value := value.(type) {
	case string:
		return strings.ReplaceAll(value, c.server.URL+projectPath, "")
	case resource:
		return c.portable(map[string]any(value))
	case map[string]any:
		ported := map[string]any{}
		for key, element := range value {
			ported[key] = c.portable(element)
		}
		return ported
	case []any:
		ported := make([]any, 0, len(value))
		for _, element := range value {
			ported = append(ported, c.portable(element))
		}
		slices.SortFunc(ported, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		return ported
	default:
		return value
	}
}

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if suffix, is := strings.CutPrefix(r.URL.Path, "/computeMetadata/v1/"); is {
		c.serveMetadata(w, suffix)
		return
	}
	where, is := strings.CutPrefix(r.URL.Path, projectPath)
	if !is {
		c.refuseUnknown(w, r)
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+token {
		answerError(w, &apiError{http.StatusUnauthorized, "the request carries no token of the metadata server"})
		return
	}
	if isOperation(where) {
		answer(w, c.operation(where))
		return
	}
	asked, err := read(r, where)
	result, known := any(nil), slices.Contains(kinds, asked.kind)
	if known && err == nil {
		result, known, err = c.do(asked)
	}
	if !known {
		c.refuseUnknown(w, r)
		return
	}
	c.calls = append(c.calls, callOf(asked, err))
	if err != nil {
		answerError(w, err)
		return
	}
	answer(w, result)
}

func (c *Cloud) refuseUnknown(w http.ResponseWriter, r *http.Request) {
	c.unknown = append(c.unknown, r.Method+" "+r.URL.String())
	answerError(w, &apiError{http.StatusNotImplemented, "the stand-in does not know " + r.Method + " " + r.URL.Path})
}

// serveMetadata answers as the metadata server of an instance that is no node: it hands out tokens, and says where it is.
func (c *Cloud) serveMetadata(w http.ResponseWriter, suffix string) {
	w.Header().Set("Metadata-Flavor", "Google")
	switch suffix {
	case "instance/service-accounts/default/token":
		answer(w, map[string]any{"access_token": token, "expires_in": 3600, "token_type": "Bearer"})
	case "project/project-id":
		fmt.Fprint(w, Project)
	case "instance/hostname":
		fmt.Fprintf(w, "controller.%s.c.%s.internal", Zones[0], Project)
	default:
		c.unknown = append(c.unknown, "metadata "+suffix)
		http.NotFound(w, nil)
	}
}

// apiError is a refusal, in the API's terms.
type apiError struct {
	status  int
	message string
}

func answerError(w http.ResponseWriter, err *apiError) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(err.status)
	// Nothing can be done for a client that has gone.
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": err.status, "message": err.message}})
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}
