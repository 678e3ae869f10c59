package compute

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
)

// act serves the requests that change what a target pool or an instance group holds, or list it.
func (c *Cloud) act(r request) (result any, known bool, err *apiError) {
	where := path.Dir(r.where)
	switch r.method + " " + r.kind + "/" + r.verb {
	case "POST regions/targetPools/addInstance", "POST zones/instanceGroups/addInstances":
		result, err = c.change(where, r.instances(), true)
	case "POST regions/targetPools/removeInstance", "POST zones/instanceGroups/removeInstances":
		result, err = c.change(where, r.instances(), false)
	case "POST zones/instanceGroups/listInstances":
		result, err = c.members(where)
	default:
		return nil, false, nil
	}
	return result, true, err
}

// change adds instances to a pool or group, or removes them. Members are kept as links in "instances".
func (c *Cloud) change(where string, instances []string, add bool) (any, *apiError) {
	holder, err := c.get(where)
	if err != nil {
		return nil, err
	}
	members, _ := holder["instances"].([]any)
	for _, instance := range instances {
		if _, err := c.get(instance); err != nil && add {
			return nil, err
		}
		members = slices.DeleteFunc(slices.Clone(members), func(member any) bool { return instancePath(member.(string)) == instance })
		if add {
			members = append(members, c.link(instance))
		}
	}
	holder["instances"] = members
	return c.began(where), nil
}

func (c *Cloud) members(where string) (any, *apiError) {
	group, err := c.get(where)
	if err != nil {
		return nil, err
	}
	items := []any{}
	members, _ := group["instances"].([]any)
	for _, member := range members {
		items = append(items, map[string]any{"instance": member, "status": "RUNNING"})
	}
	return map[string]any{"items": items}, nil
}

// instancePath returns the path below the project of an instance's link, of which the plugin sends no more than the end.
func instancePath(link string) string {
	at := strings.Index(link, "zones/")
	if at < 0 {
		return link
	}
	return link[at:]
}

// AddInstance creates a running instance.
func (c *Cloud) AddInstance(name, zone, machineType, internal, external string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := "zones/" + zone + "/instances/" + name
	c.resources[at] = c.named(at, resource{
		"zone": c.link("zones/" + zone), "machineType": c.link("zones/" + zone + "/machineTypes/" + machineType), "status": "RUNNING",
		"tags": map[string]any{"items": []any{"node"}},
		"networkInterfaces": []any{map[string]any{
			"networkIP": internal, "accessConfigs": []any{map[string]any{"natIP": external}},
		}},
	})
}

// StopInstance stops an instance.
func (c *Cloud) StopInstance(name string) error {
	return c.onInstance(name, func(at string) { c.resources[at]["status"] = "TERMINATED" })
}

// DeleteInstance deletes an instance. Compute Engine takes it out of instance groups, and leaves it in target pools.
func (c *Cloud) DeleteInstance(name string) error {
	return c.onInstance(name, func(at string) {
		delete(c.resources, at)
		for group, r := range c.resources {
			if members, ok := r["instances"].([]any); ok && strings.Contains(group, "/instanceGroups/") {
				r["instances"] = slices.DeleteFunc(slices.Clone(members), func(member any) bool { return instancePath(member.(string)) == at })
			}
		}
	})
}

func (c *Cloud) onInstance(name string, do func(at string)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.paths() {
		if kind, _, _ := parse(at); kind == "zones/instances" && path.Base(at) == name {
			do(at)
			return nil
		}
	}
	return fmt.Errorf("there is no instance %q in any zone (%d)", name, http.StatusNotFound)
}
