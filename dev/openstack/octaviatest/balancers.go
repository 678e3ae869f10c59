package octaviatest

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
)

// shown is an object as a read shows it: a load balancer with the IDs of what is below it, and closer to the end of its change.
func (c *Cloud) shown(kind string, object Object) Object {
	shown := maps.Clone(object)
	delete(shown, "reads")
	id := object.text("id")
	switch kind {
	case LoadBalancers:
		c.advance(object)
		shown["listeners"], shown["pools"] = c.references(Listeners, "loadbalancer_id", id), c.references(Pools, "loadbalancer_id", id)
	case Pools:
		shown["members"] = c.references(Members, "pool_id", id)
	case Groups:
		shown["security_group_rules"] = slices.DeleteFunc(c.all(Rules), func(rule Object) bool { return rule.text("security_group_id") != id })
	}
	return shown
}

func (c *Cloud) references(kind, key, id string) []Object {
	found := []Object{}
	for _, object := range c.all(kind) {
		if object.text(key) == id {
			found = append(found, Object{"id": object["id"]})
		}
	}
	return found
}

// advance brings a pending load balancer closer to the end of its change.
func (c *Cloud) advance(lb Object) {
	reads, _ := lb["reads"].(int)
	switch state := lb.text("provisioning_status"); {
	case reads > 1:
		lb["reads"] = reads - 1
	case state == "PENDING_DELETE":
		c.remove(lb.text("id"))
	case state != "ERROR":
		lb["provisioning_status"] = "ACTIVE"
	}
}

// touch says that a load balancer changes, and returns the refusal if it is changing already.
func (c *Cloud) touch(id, state string) (int, any) {
	lb := c.objects[LoadBalancers][id]
	if lb == nil {
		return refuse(http.StatusNotFound, "Load Balancer "+id+" not found.")
	}
	if now := lb.text("provisioning_status"); now != "ACTIVE" && (now != "ERROR" || state != "PENDING_DELETE") {
		return refuse(http.StatusConflict, "Load Balancer "+id+" is immutable and cannot be updated.")
	}
	if c.pending > 0 {
		lb["provisioning_status"], lb["reads"] = state, c.pending
	} else if state == "PENDING_DELETE" {
		c.remove(id)
	}
	return 0, nil
}

func (c *Cloud) remove(id string) {
	if port := c.objects[LoadBalancers][id].text("vip_port_id"); port != "" {
		for _, address := range c.objects[FloatingIPs] {
			if address.text("port_id") == port {
				address["port_id"] = nil
			}
		}
	}
	for _, kind := range []string{Listeners, Pools, Members, Monitors} {
		maps.DeleteFunc(c.objects[kind], func(_ string, object Object) bool { return object.text("loadbalancer_id") == id })
	}
	delete(c.objects[LoadBalancers], id)
}

// unsupported refuses what the driver ovn cannot do.
func unsupported(driver string, listener Object) (int, any) {
	text := ""
	switch protocol := listener.text("protocol"); {
	case driver != "ovn":
	case len(texts(listener["allowed_cidrs"])) > 0:
		text = "OVN provider does not support allowed_cidrs option"
	case protocol != "TCP" && protocol != "UDP" && protocol != "SCTP":
		text = "OVN provider does not support " + protocol + " protocol"
	}
	if text == "" {
		return 0, nil
	}
	return refuse(http.StatusNotImplemented, "Provider 'ovn' does not support a requested option: "+text)
}

func (c *Cloud) create(r *http.Request, body Object) (int, any) {
	kind := r.PathValue("kind")
	object := Object(body[singular(kind)].(map[string]any))
	if kind == LoadBalancers {
		return c.createBalancer(object)
	}
	id := object.text("loadbalancer_id")
	switch kind {
	case Pools:
		id = c.objects[Listeners][object.text("listener_id")].text("loadbalancer_id")
	case Monitors:
		id = c.objects[Pools][object.text("pool_id")].text("loadbalancer_id")
	}
	if status, refusal := unsupported(c.objects[LoadBalancers][id].text("provider"), object); kind == Listeners && status != 0 {
		return status, refusal
	}
	if status, refusal := c.touch(id, "PENDING_UPDATE"); status != 0 {
		return status, refusal
	}
	object["loadbalancer_id"], object["provisioning_status"] = id, "ACTIVE"
	if pool := c.objects[Pools][object.text("pool_id")]; kind == Monitors && pool.text("provisioning_status") != "ACTIVE" {
		return stuck(pool)
	}
	switch kind {
	case Listeners:
		withDefaults(object)
		c.put(kind, object)
	case Pools:
		c.objects[Listeners][object.text("listener_id")]["default_pool_id"] = c.put(kind, object)
	case Monitors:
		c.objects[Pools][object.text("pool_id")]["healthmonitor_id"] = c.put(kind, object)
	}
	return http.StatusCreated, Object{singular(kind): object}
}

// addressIn returns an address of a subnet that no other load balancer has.
func (c *Cloud) addressIn(subnet string) string {
	c.lastVIP++
	prefix, err := netip.ParsePrefix(c.objects[Subnets][subnet].text("cidr"))
	if err != nil {
		prefix = netip.MustParsePrefix("10.0.0.0/24")
	}
	address := prefix.Masked().Addr()
	for range 100 + c.lastVIP {
		address = address.Next()
	}
	return address.String()
}

// stuck refuses a change below a pool that is not active.
func stuck(pool Object) (int, any) {
	return refuse(http.StatusConflict, "Pool "+pool.text("id")+" is immutable and cannot be updated.")
}

func withDefaults(listener Object) {
	for key, value := range map[string]any{"connection_limit": -1, "timeout_client_data": 50000, "timeout_member_connect": 5000,
		"timeout_member_data": 50000, "timeout_tcp_inspect": 0} {
		if listener[key] == nil {
			listener[key] = value
		}
	}
}

// createBalancer makes a load balancer with all that is below it. The driver ovn leaves monitors out.
func (c *Cloud) createBalancer(lb Object) (int, any) {
	listeners, _ := lb["listeners"].([]any)
	for _, one := range listeners {
		if status, refusal := unsupported(lb.text("provider"), one.(map[string]any)); status != 0 {
			return status, refusal
		}
	}
	delete(lb, "listeners")
	lb["provisioning_status"], lb["reads"] = "PENDING_CREATE", c.pending
	if c.pending == 0 {
		lb["provisioning_status"] = "ACTIVE"
	}
	id := c.put(LoadBalancers, lb)
	for key, value := range map[string]any{"vip_port_id": "port-of-" + id, "vip_subnet_id": "nodes"} {
		if lb.text(key) == "" {
			lb[key] = value
		}
	}
	if lb.text("vip_address") == "" {
		lb["vip_address"] = c.addressIn(lb.text("vip_subnet_id"))
	}
	additional, _ := lb["additional_vips"].([]any)
	for _, one := range additional {
		if vip := Object(one.(map[string]any)); lb.text("provider") != "ovn" {
			vip["ip_address"] = c.addressIn(vip.text("subnet_id"))
		} else {
			vip["ip_address"] = nil // the driver of the release Zed takes additional VIPs and makes none
		}
	}
	for _, one := range listeners {
		c.populate(lb, one.(map[string]any))
	}
	return http.StatusCreated, Object{"loadbalancer": c.answered(lb)}
}

// answered is the answer to a creation, which holds all that is below the load balancer as Octavia's does: LoadBalancerFullResponse in its
// octavia/api/v2/types/load_balancer.py. All of it is still to be made.
func (c *Cloud) answered(lb Object) Object {
	shown := c.created(lb)
	of := func(kind, key string, id any) []Object {
		found := []Object{}
		for _, object := range c.all(kind) {
			if object[key] == id {
				object = maps.Clone(object)
				object["provisioning_status"] = "PENDING_CREATE"
				found = append(found, object)
			}
		}
		return found
	}
	shown["provisioning_status"] = "PENDING_CREATE"
	shown["listeners"], shown["pools"] = of(Listeners, "loadbalancer_id", lb["id"]), of(Pools, "loadbalancer_id", lb["id"])
	for _, pool := range shown["pools"].([]Object) {
		pool["members"] = of(Members, "pool_id", pool["id"])
		if probes := of(Monitors, "pool_id", pool["id"]); len(probes) > 0 {
			pool["healthmonitor"] = probes[0]
		}
		delete(pool, "healthmonitor_id")
		maps.DeleteFunc(pool, func(key string, _ any) bool { return slices.Contains(c.brief, key) })
	}
	maps.DeleteFunc(shown, func(key string, _ any) bool { return slices.Contains(c.brief, key) })
	return shown
}

func (c *Cloud) created(lb Object) Object {
	shown := maps.Clone(lb)
	delete(shown, "reads")
	return shown
}

func (c *Cloud) populate(lb, listener Object) {
	id := lb["id"]
	if pool, ok := listener["default_pool"].(map[string]any); ok {
		members, _ := pool["members"].([]any)
		monitor, _ := pool["healthmonitor"].(map[string]any)
		delete(pool, "members")
		delete(pool, "healthmonitor")
		pool["loadbalancer_id"], pool["provisioning_status"] = id, "ACTIVE"
		poolID := c.put(Pools, pool)
		for _, member := range members {
			c.addMember(pool, member.(map[string]any))
		}
		if monitor != nil && lb.text("provider") != "ovn" {
			monitor["loadbalancer_id"], monitor["pool_id"] = id, poolID
			pool["healthmonitor_id"] = c.put(Monitors, monitor)
		}
		delete(listener, "default_pool")
		listener["default_pool_id"] = poolID
	}
	listener["loadbalancer_id"], listener["provisioning_status"] = id, "ACTIVE"
	withDefaults(listener)
	c.put(Listeners, listener)
}

func (c *Cloud) addMember(pool, member Object) {
	member["pool_id"], member["loadbalancer_id"], member["provisioning_status"] = pool["id"], pool["loadbalancer_id"], "ACTIVE"
	c.put(Members, member)
}

func (c *Cloud) update(r *http.Request, body Object) (int, any) {
	kind, id := r.PathValue("kind"), r.PathValue("id")
	object := c.objects[kind][id]
	if object == nil {
		return notFound(r)
	}
	lb := object.text("loadbalancer_id")
	if kind == LoadBalancers {
		lb = id
	}
	changes, _ := body[singular(kind)].(map[string]any)
	if status, refusal := unsupported(c.objects[LoadBalancers][lb].text("provider"), Object{"protocol": "TCP", "allowed_cidrs": changes["allowed_cidrs"]}); status != 0 {
		return status, refusal
	}
	if status, refusal := c.touch(lb, "PENDING_UPDATE"); status != 0 {
		return status, refusal
	}
	maps.Copy(object, changes)
	if kind == Pools {
		object["provisioning_status"] = "ACTIVE"
	}
	return http.StatusOK, Object{singular(kind): c.created(object)}
}

func (c *Cloud) delete(r *http.Request, _ Object) (int, any) {
	kind, id := r.PathValue("kind"), r.PathValue("id")
	object := c.objects[kind][id]
	if object == nil {
		return notFound(r)
	}
	if kind == LoadBalancers {
		if r.URL.Query().Get("cascade") != "true" && len(c.references(Listeners, "loadbalancer_id", id)) > 0 {
			return refuse(http.StatusBadRequest, "Cannot delete Load Balancer "+id+" - it has children")
		}
		if status, refusal := c.touch(id, "PENDING_DELETE"); status != 0 {
			return status, refusal
		}
		return http.StatusNoContent, nil
	}
	if status, refusal := c.touch(object.text("loadbalancer_id"), "PENDING_UPDATE"); status != 0 {
		return status, refusal
	}
	switch kind {
	case Pools:
		for _, listener := range c.objects[Listeners] {
			if listener.text("default_pool_id") == id {
				listener["default_pool_id"] = nil
			}
		}
		for _, of := range []string{Members, Monitors} {
			maps.DeleteFunc(c.objects[of], func(_ string, object Object) bool { return object.text("pool_id") == id })
		}
	case Monitors:
		c.loseMonitor(object.text("pool_id"), object.text("loadbalancer_id"))
	}
	delete(c.objects[kind], id)
	return http.StatusNoContent, nil
}

// loseMonitor takes the monitor from a pool. The driver ovn then reports the first pool of the load balancer, whichever it was, so any
// other stays pending.
func (c *Cloud) loseMonitor(id, lb string) {
	pool := c.objects[Pools][id]
	pool["healthmonitor_id"] = nil
	if c.objects[LoadBalancers][lb].text("provider") != "ovn" {
		return
	}
	pool["provisioning_status"] = "PENDING_UPDATE"
	for _, first := range c.all(Pools) {
		if first.text("loadbalancer_id") == lb {
			first["provisioning_status"] = "ACTIVE"
			return
		}
	}
}

// status is the status tree, which has members with addresses.
func (c *Cloud) status(r *http.Request, _ Object) (int, any) {
	lb := c.objects[LoadBalancers][r.PathValue("id")]
	if lb == nil {
		return notFound(r)
	}
	listeners := []Object{}
	for _, listener := range c.all(Listeners) {
		if listener["loadbalancer_id"] != lb["id"] {
			continue
		}
		shown := Object{"id": listener["id"], "name": listener["name"], "provisioning_status": listener["provisioning_status"], "pools": []Object{}}
		if pool := c.objects[Pools][listener.text("default_pool_id")]; pool != nil {
			members := []Object{}
			for _, member := range c.membersOf(pool.text("id")) {
				members = append(members, Object{"id": member["id"], "name": member["name"], "address": member["address"],
					"protocol_port": member["protocol_port"], "provisioning_status": member["provisioning_status"]})
			}
			shown["pools"] = []Object{{"id": pool["id"], "name": pool["name"], "members": members}}
		}
		listeners = append(listeners, shown)
	}
	return http.StatusOK, Object{"statuses": Object{"loadbalancer": Object{"id": lb["id"], "listeners": listeners}}}
}

func (c *Cloud) failover(r *http.Request, _ Object) (int, any) {
	lb := c.objects[LoadBalancers][r.PathValue("id")]
	if lb == nil {
		return notFound(r)
	}
	lb["provisioning_status"], lb["reads"] = "PENDING_UPDATE", c.pending
	return http.StatusAccepted, nil
}

func (c *Cloud) membersOf(pool string) []Object {
	return slices.DeleteFunc(c.all(Members), func(member Object) bool { return member.text("pool_id") != pool })
}

func (c *Cloud) listMembers(r *http.Request, _ Object) (int, any) {
	return http.StatusOK, Object{"members": append([]Object{}, c.membersOf(r.PathValue("id"))...)}
}

// setMembers keeps the members that the call repeats, by address and port, and changes, adds and deletes the others.
func (c *Cloud) setMembers(r *http.Request, body Object) (int, any) {
	pool := c.objects[Pools][r.PathValue("id")]
	if pool == nil {
		return notFound(r)
	}
	if pool.text("provisioning_status") != "ACTIVE" {
		return stuck(pool)
	}
	if status, refusal := c.touch(pool.text("loadbalancer_id"), "PENDING_UPDATE"); status != 0 {
		return status, refusal
	}
	key := func(member Object) string { return fmt.Sprint(member["address"], member["protocol_port"]) }
	existing := map[string]Object{}
	for _, member := range c.membersOf(pool.text("id")) {
		existing[key(member)] = member
	}
	wanted, _ := body["members"].([]any)
	for _, one := range wanted {
		member := Object(one.(map[string]any))
		if has := existing[key(member)]; has != nil {
			maps.Copy(has, member)
			delete(existing, key(member))
			continue
		}
		c.addMember(pool, member)
	}
	for _, gone := range existing {
		delete(c.objects[Members], gone.text("id"))
	}
	return http.StatusAccepted, nil
}
