package arm

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

// Where everything is.
const (
	location        = "westeurope"
	subscription    = "00000000-0000-0000-0000-00000000000a"
	tenant          = "00000000-0000-0000-0000-00000000000b"
	group           = "nodes"
	securityGroup   = "nodes-nsg"
	availabilitySet = "workers"

	groupPath = "/subscriptions/" + subscription + "/resourceGroups/" + group + "/providers/"
	token     = "a-token-of-the-stand-in"
)

// Cloud is the stand-in.
type Cloud struct {
	server *httptest.Server

	mu        sync.Mutex
	resources map[string]resource // by their identifier below groupPath, such as "Microsoft.Network/loadBalancers/kubernetes"
	calls     []compare.Call
	unknown   []string
}

// resource is a resource of the API, as JSON decodes it.
type resource = map[string]any

// New starts a cloud with a security group and no machines. Close ends it.
func New() *Cloud {
	c := &Cloud{resources: map[string]resource{}}
	c.server = httptest.NewServer(c)
	c.put("Microsoft.Network/networkSecurityGroups/"+securityGroup, resource{"properties": resource{"securityRules": []any{}}})
	return c
}

// Close ends the server.
func (c *Cloud) Close() { c.server.Close() }

// Launch is how the plugin finds the stand-in. What it caches it forgets after a second.
func (c *Cloud) Launch() compare.Launch {
	return compare.Launch{Config: fmt.Sprintf(`{
 "cloud": "AzureStackCloud", "resourceManagerEndpoint": "%s/", "cloudConfigType": "file",
 "tenantId": "%s", "subscriptionId": "%s", "aadClientId": "cloud-controller", "aadClientSecret": "a-secret",
 "resourceGroup": "%s", "location": "%s", "vnetName": "nodes-vnet", "subnetName": "nodes", "securityGroupName": "%s",
 "vmType": "standard", "primaryAvailabilitySetName": "%s", "loadBalancerSku": "standard",
 "vmCacheTTLInSeconds": 1, "loadBalancerCacheTTLInSeconds": 1, "nsgCacheTTLInSeconds": 1
}`, c.server.URL, tenant, subscription, group, location, securityGroup, availabilitySet)}
}

// Observe implements compare.Cloud.
func (c *Cloud) Observe(context.Context) (compare.Observation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := map[string]string{}
	for id, r := range c.resources {
		text, err := json.MarshalIndent(ordered(r), "", " ")
		if err != nil {
			return compare.Observation{}, fmt.Errorf("write down %s: %w", id, err)
		}
		state[id] = string(text)
	}
	return compare.Observation{Calls: slices.Clone(c.calls), State: state, Problems: slices.Clone(c.unknown)}, nil
}

// ordered returns a value with its lists in order: the plugin fills them from maps and side by side.
func ordered(value any) any {
	switch value := value.(type) {
	case resource:
		sorted := maps.Clone(value)
		for key, element := range sorted {
			sorted[key] = ordered(element)
		}
		return sorted
	case []any:
		sorted := make([]any, 0, len(value))
		for _, element := range value {
			sorted = append(sorted, ordered(element))
		}
		slices.SortFunc(sorted, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		return sorted
	default:
		return value
	}
}

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.Method + " " + r.URL.Path {
	case "GET /metadata/endpoints":
		answer(w, http.StatusOK, resource{"authentication": resource{
			"loginEndpoint": c.server.URL + "/login/", "audiences": []string{c.server.URL + "/audience"},
		}})
		return
	case "POST /login/" + tenant + "/oauth2/token":
		answer(w, http.StatusOK, resource{
			"access_token": token, "token_type": "Bearer", "expires_in": "3600", "expires_on": "4102444800", "not_before": "0",
			"resource": c.server.URL + "/audience",
		})
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+token {
		answer(w, http.StatusUnauthorized, refusal("InvalidAuthenticationToken", "The access token is missing or invalid."))
		return
	}
	c.serveResource(w, r)
}

// serveResource serves a request for a resource or for all of a kind.
func (c *Cloud) serveResource(w http.ResponseWriter, r *http.Request) {
	asked, known, err := read(r)
	if !known {
		c.unknown = append(c.unknown, r.Method+" "+r.URL.String())
		answer(w, http.StatusNotImplemented, refusal("Unknown", "the stand-in does not know "+r.Method+" "+r.URL.Path))
		return
	}
	var result any
	if err == nil {
		result, err = c.do(asked)
	}
	call := compare.Call{Action: r.Method + " " + asked.kind}
	if r.Method != http.MethodGet {
		call.Change = asked.id
	}
	if err != nil {
		call.Error = err.code
	}
	c.calls = append(c.calls, call)
	if err != nil {
		answer(w, err.status, refusal(err.code, err.message))
		return
	}
	answer(w, http.StatusOK, result)
}

// apiError is a refusal, in the API's terms.
type apiError struct {
	status        int
	code, message string
}

func refusal(code, message string) resource {
	return resource{"error": resource{"code": code, "message": message}}
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// Nothing can be done for a client that has gone.
	_ = json.NewEncoder(w).Encode(value)
}
