package compute

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/mooring-ccm/mooring/dev/plugins/compare"
)

// kinds are the kinds of resources that the stand-in knows, with their scope.
var kinds = []string{
	"zones", "regions",
	"global/networks", "global/firewalls", "global/httpHealthChecks", "global/healthChecks",
	"regions/addresses", "regions/forwardingRules", "regions/targetPools", "regions/backendServices",
	"zones/instances", "zones/instanceGroups",
}

// request is what is asked for: for "regions/R/targetPools/NAME/addInstance" the kind is "regions/targetPools" and the verb is
// "addInstance".
type request struct {
	method, where, kind, name, verb, filter string
	body                                    resource
}

func read(r *http.Request, where string) (request, *apiError) {
	asked := request{method: r.Method, where: where, filter: r.URL.Query().Get("filter")}
	asked.kind, asked.name, asked.verb = parse(where)
	if r.Method == http.MethodGet || r.Method == http.MethodDelete {
		return asked, nil
	}
	if err := json.NewDecoder(r.Body).Decode(&asked.body); err != nil {
		return asked, &apiError{http.StatusBadRequest, "Parse Error: " + err.Error()}
	}
	return asked, nil
}

// parse takes a path below the project apart.
func parse(where string) (kind, name, verb string) {
	parts := strings.Split(where, "/")
	switch {
	case parts[0] == "global" && len(parts) >= 2:
		kind, parts = "global/"+parts[1], parts[2:]
	case len(parts) <= 2: // the zones and regions themselves
		kind, parts = parts[0], parts[1:]
	default:
		kind, parts = parts[0]+"/"+parts[2], parts[3:]
	}
	if len(parts) > 0 {
		name = parts[0]
	}
	if len(parts) > 1 {
		verb = strings.Join(parts[1:], "/")
	}
	return kind, name, verb
}

// instances returns the paths of the instances that the body of a request names, in order.
func (r request) instances() []string {
	var paths []string
	references, _ := r.body["instances"].([]any)
	for _, reference := range references {
		fields, _ := reference.(map[string]any)
		link, _ := fields["instance"].(string)
		paths = append(paths, instancePath(link))
	}
	slices.Sort(paths)
	return paths
}

// callOf returns the record of a request. The API lists what is in a group by POST, which changes nothing.
func callOf(r request, err *apiError) compare.Call {
	call := compare.Call{Action: strings.TrimSuffix(r.method+" "+r.kind+"/"+r.verb, "/")}
	switch {
	case r.method == http.MethodGet || r.verb == "listInstances":
	case r.verb != "":
		call.Change = strings.Join(append([]string{r.where}, r.instances()...), " ")
	case r.name == "":
		name, _ := r.body["name"].(string)
		call.Change = r.where + "/" + name
	default:
		call.Change = r.where
	}
	if err != nil {
		call.Error = http.StatusText(err.status)
	}
	return call
}
