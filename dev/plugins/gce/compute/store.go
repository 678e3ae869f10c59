package compute

import (
	"fmt"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// do serves a request. Known is false for one that the stand-in cannot serve.
func (c *Cloud) do(r request) (result any, known bool, err *apiError) {
	switch {
	case r.verb != "":
		return c.act(r)
	case r.method == http.MethodGet && r.name == "":
		result, err = c.list(r.where, r.filter)
	case r.method == http.MethodGet:
		result, err = c.get(r.where)
	case r.method == http.MethodPost && r.name == "":
		result, err = c.insert(r)
	case r.method == http.MethodPut && r.name != "":
		result, err = c.replace(r.where, r.body)
	case r.method == http.MethodPatch && r.name != "":
		result, err = c.patch(r.where, r.body)
	case r.method == http.MethodDelete && r.name != "":
		result, err = c.remove(r.where)
	default:
		return nil, false, nil
	}
	return result, true, err
}

func (c *Cloud) get(where string) (resource, *apiError) {
	r, found := c.resources[where]
	if !found {
		return nil, &apiError{http.StatusNotFound, fmt.Sprintf("The resource 'projects/%s/%s' was not found", Project, where)}
	}
	return r, nil
}

// filterTerm is the one form of filters that the plugin sends: a field that a regular expression has to match wholly.
var filterTerm = regexp.MustCompile(`^(\w+) eq (.*)$`)

func (c *Cloud) list(where, filter string) (any, *apiError) {
	matches := func(resource) bool { return true }
	if filter != "" {
		term := filterTerm.FindStringSubmatch(filter)
		if term == nil {
			return nil, &apiError{http.StatusBadRequest, "Invalid value for field 'filter': " + filter}
		}
		expression, err := regexp.Compile("^(?:" + term[2] + ")$")
		if err != nil {
			return nil, &apiError{http.StatusBadRequest, err.Error()}
		}
		matches = func(r resource) bool { return expression.MatchString(fmt.Sprint(r[term[1]])) }
	}
	items := []resource{}
	for _, at := range c.paths() {
		if path.Dir(at) == where && matches(c.resources[at]) {
			items = append(items, c.resources[at])
		}
	}
	return map[string]any{"kind": "compute#list", "items": items}, nil
}

// paths returns where the resources are, in order.
func (c *Cloud) paths() []string {
	paths := make([]string, 0, len(c.resources))
	for at := range c.resources {
		paths = append(paths, at)
	}
	slices.Sort(paths)
	return paths
}

func (c *Cloud) insert(r request) (any, *apiError) {
	name, _ := r.body["name"].(string)
	if name == "" {
		return nil, &apiError{http.StatusBadRequest, "Required field 'name' not specified"}
	}
	at := r.where + "/" + name
	if _, found := c.resources[at]; found {
		return nil, &apiError{http.StatusConflict, fmt.Sprintf("The resource 'projects/%s/%s' already exists", Project, at)}
	}
	if err := c.complete(r.kind, r.body); err != nil {
		return nil, err
	}
	c.resources[at] = c.named(at, r.body)
	return c.began(at), nil
}

// complete fills in what the API decides when a resource is inserted.
func (c *Cloud) complete(kind string, body resource) *apiError {
	switch kind {
	case "regions/addresses":
		address, _ := body["address"].(string)
		for at, r := range c.resources {
			if address != "" && strings.Contains(at, "/addresses/") && r["address"] == address {
				return &apiError{http.StatusBadRequest, fmt.Sprintf("Specified IP address is in-use: %s", address)}
			}
		}
		if address == "" {
			body["address"] = c.newAddress(body["addressType"] == "INTERNAL")
		}
		body["status"] = "RESERVED"
	case "regions/forwardingRules":
		if body["loadBalancingScheme"] == nil {
			body["loadBalancingScheme"] = "EXTERNAL"
		}
		if body["IPAddress"] == nil {
			body["IPAddress"] = c.newAddress(body["loadBalancingScheme"] == "INTERNAL")
		}
	case "zones/instanceGroups":
		body["size"] = 0
	}
	return nil
}

// newAddress returns an address that nothing has yet: of TEST-NET-3 (RFC 5737), or private.
func (c *Cloud) newAddress(internal bool) string {
	taken := map[any]bool{}
	for _, r := range c.resources {
		taken[r["address"]], taken[r["IPAddress"]] = true, true
	}
	prefix := "203.0.113."
	if internal {
		prefix = "10.128.1."
	}
	for last := 1; ; last++ {
		if address := prefix + strconv.Itoa(last); !taken[address] {
			return address
		}
	}
}

func (c *Cloud) replace(where string, body resource) (any, *apiError) {
	current, err := c.get(where)
	if err != nil {
		return nil, err
	}
	for _, kept := range []string{"id", "name", "selfLink"} {
		body[kept] = current[kept]
	}
	c.resources[where] = body
	return c.began(where), nil
}

func (c *Cloud) patch(where string, body resource) (any, *apiError) {
	current, err := c.get(where)
	if err != nil {
		return nil, err
	}
	patched := maps.Clone(current)
	maps.Copy(patched, body)
	return c.replace(where, patched)
}

func (c *Cloud) remove(where string) (any, *apiError) {
	if _, err := c.get(where); err != nil {
		return nil, err
	}
	for _, at := range c.paths() {
		if at != where && refersTo(c.resources[at], where) {
			return nil, &apiError{http.StatusBadRequest, fmt.Sprintf(
				"The resource 'projects/%[1]s/%[2]s' is already being used by 'projects/%[1]s/%[3]s'", Project, where, at)}
		}
	}
	delete(c.resources, where)
	return c.began(where), nil
}

// refersTo says whether a resource links to another one, by a whole link or the end of one.
func refersTo(value any, where string) bool {
	switch value := value.(type) {
	case string:
		return strings.HasSuffix(value, "/"+where)
	case resource:
		return refersTo(map[string]any(value), where)
	case map[string]any:
		for key, element := range value {
			if key != "selfLink" && refersTo(element, where) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, func(element any) bool { return refersTo(element, where) })
	}
	return false
}

// named returns a resource with what the API gives to each: a name, an ID and a link to itself.
func (c *Cloud) named(where string, r resource) resource {
	c.serial++
	r["name"], r["id"], r["selfLink"] = path.Base(where), strconv.FormatUint(c.serial, 10), c.link(where)
	return r
}

func (c *Cloud) link(where string) string { return c.server.URL + projectPath + where }

// began returns the operation that a change of a resource began. It is over when it is asked for.
func (c *Cloud) began(where string) map[string]any {
	c.serial++
	scope := "global"
	if parts := strings.Split(where, "/"); parts[0] != "global" {
		scope = parts[0] + "/" + parts[1]
	}
	return c.operation(fmt.Sprintf("%s/operations/operation-%d", scope, c.serial))
}

func (c *Cloud) operation(where string) map[string]any {
	where = strings.TrimSuffix(where, "/wait")
	return map[string]any{"kind": "compute#operation", "name": path.Base(where), "selfLink": c.link(where), "status": "DONE"}
}

func isOperation(where string) bool { return strings.Contains(where, "/operations/") }
