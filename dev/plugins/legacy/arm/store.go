package arm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
)

// kinds are the kinds of resources that the stand-in knows.
var kinds = []string{
	"Microsoft.Compute/virtualMachines",
	"Microsoft.Network/loadBalancers", "Microsoft.Network/networkInterfaces", "Microsoft.Network/networkSecurityGroups",
	"Microsoft.Network/publicIPAddresses",
}

// request is what is asked for. The identifier of all resources of a kind is the kind itself.
type request struct {
	method, kind, id string
	body             resource
}

// read understands a request. Known is false if the stand-in does not serve it.
func read(r *http.Request) (asked request, known bool, err *apiError) {
	id, is := cutPrefixFold(r.URL.Path, groupPath)
	parts := strings.Split(id, "/")
	if !is || len(parts) < 2 || len(parts) > 3 {
		return request{}, false, nil
	}
	asked = request{method: r.Method, kind: parts[0] + "/" + parts[1], id: id}
	named := len(parts) == 3
	switch {
	case !slices.Contains(kinds, asked.kind):
		return request{}, false, nil
	case r.Method == http.MethodGet, r.Method == http.MethodDelete && named:
		return asked, true, nil
	case r.Method == http.MethodPut && named:
		if err := json.NewDecoder(r.Body).Decode(&asked.body); err != nil {
			return asked, true, &apiError{http.StatusBadRequest, "InvalidRequestContent", err.Error()}
		}
		return asked, true, nil
	default:
		return request{}, false, nil
	}
}

// cutPrefixFold is strings.CutPrefix without regard to case: identifiers of the API are compared so.
func cutPrefixFold(text, prefix string) (string, bool) {
	if len(text) < len(prefix) || !strings.EqualFold(text[:len(prefix)], prefix) {
		return text, false
	}
	return text[len(prefix):], true
}

func (c *Cloud) do(r request) (any, *apiError) {
	switch {
	case r.method == http.MethodPut:
		return c.put(r.id, r.body), nil
	case r.method == http.MethodDelete:
		return resource{}, c.remove(r.id)
	case r.id == r.kind:
		return resource{"value": c.all(r.kind)}, nil
	}
	found, ok := c.resources[r.id]
	if !ok {
		return nil, &apiError{http.StatusNotFound, "ResourceNotFound", fmt.Sprintf("The Resource '%s' was not found.", r.id)}
	}
	return found, nil
}

// all returns the resources of a kind, in the order of their names.
func (c *Cloud) all(kind string) []resource {
	found := []resource{}
	for _, id := range c.ids() {
		if path.Dir(id) == kind {
			found = append(found, c.resources[id])
		}
	}
	return found
}

func (c *Cloud) ids() []string {
	ids := make([]string, 0, len(c.resources))
	for id := range c.resources {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// put creates or replaces a resource and fills in what the API decides.
func (c *Cloud) put(id string, r resource) resource {
	r["id"], r["name"], r["type"] = groupPath+id, path.Base(id), path.Dir(id)
	properties, _ := r["properties"].(resource)
	if properties == nil {
		properties = resource{}
		r["properties"] = properties
	}
	properties["provisioningState"] = "Succeeded"
	identify(groupPath+id, properties)
	if path.Dir(id) == "Microsoft.Network/publicIPAddresses" && properties["ipAddress"] == nil {
		properties["ipAddress"] = c.newAddress()
	}
	c.resources[id] = r
	c.connect()
	return r
}

// identify gives identifiers to the named parts of a resource: "ID/frontendIPConfigurations/NAME".
func identify(parent string, properties resource) {
	for key, value := range properties {
		parts, _ := value.([]any)
		for _, part := range parts {
			fields, _ := part.(resource)
			if name, named := fields["name"].(string); named {
				fields["id"] = parent + "/" + key + "/" + name
			}
		}
	}
}

// newAddress returns an address of TEST-NET-3 (RFC 5737) that no public address has.
func (c *Cloud) newAddress() string {
	taken := map[any]bool{}
	for _, r := range c.all("Microsoft.Network/publicIPAddresses") {
		taken[r["properties"].(resource)["ipAddress"]] = true
	}
	for last := 1; ; last++ {
		if address := "203.0.113." + strconv.Itoa(last); !taken[address] {
			return address
		}
	}
}

// remove deletes a resource. What a load balancer uses cannot be deleted before it.
func (c *Cloud) remove(id string) *apiError {
	for _, balancer := range c.all("Microsoft.Network/loadBalancers") {
		if path.Dir(id) == "Microsoft.Network/publicIPAddresses" && refersTo(balancer["properties"], groupPath+id) {
			return &apiError{http.StatusBadRequest, "PublicIPAddressCannotBeDeleted",
				fmt.Sprintf("Public IP address %s can not be deleted since it is still allocated to resource %s.", id, balancer["id"])}
		}
	}
	delete(c.resources, id)
	c.connect()
	return nil
}

// refersTo says whether a value holds an identifier.
func refersTo(value any, id string) bool {
	switch value := value.(type) {
	case string:
		return strings.EqualFold(value, id)
	case resource:
		for _, element := range value {
			if refersTo(element, id) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, func(element any) bool { return refersTo(element, id) })
	}
	return false
}
