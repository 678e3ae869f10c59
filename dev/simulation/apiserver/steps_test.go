package apiserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strings"
)

type object = map[string]any

const (
	jsonPatch      = "application/json-patch+json"
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
)

// draw makes a request of a random kind.
func (p *pair) draw() step {
	made := p.drawKind()
	if made.accept == "" && p.chance(20) && made.method != "PATCH" {
		made.accept = "application/vnd.kubernetes.protobuf,application/json"
	}
	if made.accept == "" && p.chance(15) && made.method != "DELETE" && !strings.Contains(made.path, "review") {
		list := ""
		if made.method == "GET" && p.chance(50) {
			list = "List"
		}
		made.accept = "application/json;as=PartialObjectMetadata" + list + ";g=meta.k8s.io;v=v1,application/json"
	}
	if made.method != "GET" && p.chance(10) {
		made.query = merged(made.query, "fieldManager", pick(p, "one", "two"))
	}
	return made
}

func merged(query url.Values, key, value string) url.Values {
	result := maps.Clone(query)
	if result == nil {
		result = url.Values{}
	}
	result.Set(key, value)
	return result
}

func (p *pair) drawKind() step {
	switch n := p.random.IntN(100); {
	case n < 38:
		return p.nodeStep()
	case n < 66:
		return p.serviceStep()
	case n < 74:
		return p.simpleStep(p.in("coordination.k8s.io", "v1", "leases"), p.lease)
	case n < 78:
		return p.simpleStep(p.in("", "v1", "configmaps"), func() object { return object{"data": object{"key": pick(p, "one", "two")}} })
	case n < 81:
		return p.simpleStep(p.in("", "v1", "secrets"), func() object { return object{"stringData": object{"key": pick(p, "one", "two")}} })
	case n < 84:
		return p.simpleStep(p.in("discovery.k8s.io", "v1", "endpointslices"), func() object {
			return object{"addressType": "IPv4", "endpoints": []any{object{"addresses": []any{pick(p, "192.0.2.1", "192.0.2.2")}}}, "ports": []any{object{"port": 80}}}
		})
	case n < 91:
		return p.eventStep()
	case n < 95:
		return p.requestStep()
	}
	return p.badStep()
}

func (p *pair) nodePath() string {
	return "/api/v1/nodes/" + fmt.Sprintf("n%d", p.random.IntN(3))
}

func (p *pair) labels() object {
	result := object{}
	for _, key := range []string{"a", "b"} {
		if p.chance(50) {
			result[key] = pick(p, "1", "2")
		}
	}
	return result
}

func (p *pair) metadata(name string) object {
	about := object{"name": name}
	if p.chance(50) {
		about["labels"] = p.labels()
	}
	if p.chance(20) {
		about["finalizers"] = []any{"example.com/one"}
	}
	if p.chance(10) {
		about["annotations"] = object{"note": pick(p, "x", "y")}
	}
	if p.chance(3) {
		about["name"] = "Wrong_Name"
	}
	if p.chance(3) {
		about["resourceVersion"] = "1"
	}
	if p.chance(3) {
		about["labels"] = object{"bad key!": "x"}
	}
	return about
}

func (p *pair) taints() []any {
	taints := []any{}
	for _, key := range []string{"node.cloudprovider.kubernetes.io/uninitialized", "node.kubernetes.io/not-ready"} {
		if p.chance(40) {
			taints = append(taints, object{"key": key, "effect": pick(p, "NoSchedule", "NoSchedule", "NoExecute"), "value": "true"})
		}
	}
	if p.chance(5) {
		taints = append(taints, object{"key": "x", "effect": pick(p, "Wrong", "")})
	}
	return taints
}

func (p *pair) nodeSpec() object {
	spec := object{"taints": p.taints()}
	if p.chance(30) {
		spec["providerID"] = pick(p, "x://1", "x://2")
	}
	if p.chance(20) {
		cidr := pick(p, "10.1.0.0/24", "10.2.0.0/24", "10.2.0.0/24", "wrong")
		spec["podCIDR"], spec["podCIDRs"] = cidr, []any{cidr}
	}
	if p.chance(30) {
		spec["unschedulable"] = true
	}
	return spec
}

func (p *pair) nodeStatus() object {
	status := object{}
	if p.chance(60) {
		addresses := []any{object{"type": "Hostname", "address": "host"}}
		for range p.random.IntN(3) {
			addresses = append(addresses, object{"type": "InternalIP", "address": pick(p, "192.0.2.1", "192.0.2.2", "192.0.2.3")})
		}
		status["addresses"] = addresses
	}
	if p.chance(50) {
		status["conditions"] = []any{object{"type": pick(p, "Ready", "NetworkUnavailable"), "status": pick(p, "True", "False"), "reason": "Test",
			"lastHeartbeatTime": "2024-01-01T00:00:00Z", "lastTransitionTime": "2024-01-01T00:00:00Z"}}
	}
	if p.chance(20) {
		status["capacity"] = object{"cpu": "2"}
	}
	return status
}

func (p *pair) nodeStep() step {
	path := p.nodePath()
	name := path[strings.LastIndex(path, "/")+1:]
	switch n := p.random.IntN(100); {
	case n < 20:
		return step{method: "POST", path: "/api/v1/nodes", body: constant(object{"metadata": p.metadata(name), "spec": p.nodeSpec(), "status": p.nodeStatus()})}
	case n < 27:
		return step{method: "GET", path: path}
	case n < 37:
		return p.listStep("/api/v1/nodes")
	case n < 45:
		spec, status, about := p.nodeSpec(), p.nodeStatus(), p.metadata(name)
		return p.updateStep(path, func(o object) { o["spec"], o["status"] = spec, status; update(o, about) })
	case n < 52:
		status, about := p.nodeStatus(), p.metadata(name)
		return p.updateStep(path+"/status", func(o object) { o["status"] = status; update(o, about); o["spec"] = object{"unschedulable": true} })
	case n < 62:
		return p.deleteStep(path)
	case n < 75:
		return step{method: "PATCH", path: path + p.status(), contentType: jsonPatch, body: constant(p.nodeOperations(path))}
	case n < 87:
		return p.patchStep(path, mergePatch, object{"spec": p.nodeSpec(), "status": p.nodeStatus()})
	}
	return p.patchStep(path, strategicPatch, object{"spec": p.nodeSpec(), "status": p.nodeStatus()})
}

func (p *pair) status() string { return pick(p, "", "", "/status") }

// nodeOperations is a JSON patch.
func (p *pair) nodeOperations(path string) any {
	all := []any{
		object{"op": "test", "path": "/metadata/resourceVersion", "value": pick(p, "[rv "+path+"]", "[rv "+path+"]", "[oldrv "+path+"]")},
		object{"op": "add", "path": "/spec/providerID", "value": pick(p, "x://1", "x://2")},
		object{"op": "remove", "path": pick(p, "/spec/taints/0", "/spec/taints", "/metadata/labels/a", "/metadata/finalizers")},
		object{"op": "add", "path": "/metadata/labels", "value": p.labels()},
		object{"op": "replace", "path": "/spec/unschedulable", "value": pick[any](p, true, false, "wrong")},
		object{"op": "add", "path": "/status/addresses", "value": []any{object{"type": "InternalIP", "address": "192.0.2.9"}}},
		object{"op": "test", "path": "/spec/unschedulable", "value": true},
		object{"op": "test", "path": "/metadata/uid", "value": pick(p, "[uid "+path+"]", "other")},
	}
	var chosen []any
	for _, operation := range all {
		if p.chance(25) {
			chosen = append(chosen, operation)
		}
	}
	if chosen == nil {
		return []any{}
	}
	return chosen
}

// patchStep patches metadata too, and sometimes names a version.
func (p *pair) patchStep(path, kind string, patch object) step {
	for key := range maps.Clone(patch) {
		if p.chance(40) {
			delete(patch, key)
		}
	}
	about := object{}
	if p.chance(40) {
		about["labels"] = p.labels()
	}
	if p.chance(20) {
		about["finalizers"] = pick[any](p, nil, []any{}, []any{"example.com/one"}, []any{"example.com/two"})
	}
	if p.chance(10) {
		about["resourceVersion"] = pick(p, "[rv "+path+"]", "[oldrv "+path+"]")
	}
	if p.chance(5) {
		about["uid"] = pick(p, "[uid "+path+"]", "other")
	}
	if p.chance(3) {
		about["name"] = "other"
	}
	if p.chance(10) {
		about["annotations"] = object{"note": pick[any](p, "x", "y", nil)}
	}
	if len(about) > 0 {
		patch["metadata"] = about
	}
	return step{method: "PATCH", path: path + p.status(), contentType: kind, body: constant(patch)}
}

func update(o, about object) {
	old := o["metadata"].(object)
	for _, key := range []string{"labels", "annotations", "finalizers"} {
		if value, ok := about[key]; ok {
			old[key] = value
		}
	}
}

// updateStep writes what the server showed last, changed.
func (p *pair) updateStep(path string, change func(object)) step {
	version := pick(p, "keep", "keep", "keep", "keep", "none", "old", "uid", "other name")
	object, _ := strings.CutSuffix(path, "/status")
	object, _ = strings.CutSuffix(object, "/approval")
	return step{method: "PUT", path: path, body: func(s *side) any {
		body := cloned(s.last[object])
		if body == nil {
			body = map[string]any{"metadata": map[string]any{"name": object[strings.LastIndex(object, "/")+1:]}}
		}
		about := body["metadata"].(map[string]any)
		switch version {
		case "none":
			delete(about, "resourceVersion")
			delete(about, "managedFields")
		case "old":
			about["resourceVersion"] = "[oldrv " + object + "]"
		case "uid":
			about["uid"] = "other"
		case "other name":
			about["name"] = "other"
		}
		change(body)
		return body
	}}
}

func (p *pair) deleteStep(path string) step {
	options := object{}
	if p.chance(30) {
		options["preconditions"] = object{"uid": pick(p, "[uid "+path+"]", "[uid "+path+"]", "other")}
	}
	if p.chance(20) {
		options["preconditions"] = object{"resourceVersion": pick(p, "[rv "+path+"]", "[oldrv "+path+"]")}
	}
	if p.chance(10) {
		options["propagationPolicy"] = pick(p, "Background", "Foreground", "Orphan", "Wrong")
	}
	if p.chance(20) {
		return step{method: "DELETE", path: path}
	}
	options["kind"], options["apiVersion"] = "DeleteOptions", "v1"
	return step{method: "DELETE", path: path, body: constant(options)}
}

// listStep lists with selectors, versions and pages.
func (p *pair) listStep(path string) step {
	query := url.Values{}
	if strings.HasSuffix(path, "/events") {
		// The real server writes events of type Warning about addresses that it repairs.
		return step{method: "GET", path: path, query: url.Values{"fieldSelector": {pick(p, "type=Normal", "type=Normal,reason=One")}}}
	}
	if p.chance(30) {
		query.Set("labelSelector", pick(p, "a=1", "a!=1", "a in (1,2)", "!a", "a=1,b=2", "=wrong"))
	}
	if p.chance(20) {
		query.Set("fieldSelector", pick(p, "metadata.name=n1", "metadata.name!=n1", "metadata.wrong=1", "spec.unschedulable=true", "spec.type=LoadBalancer"))
	}
	switch p.random.IntN(6) {
	case 0, 1:
		query.Set("limit", pick(p, "1", "2", "100"))
	case 2:
		query.Set("limit", "1")
		query.Set("continue", pick(p, "[continue]", "[continue]", "[continue]", "wrong"))
		query.Del("labelSelector")
		query.Del("fieldSelector")
		p.double.continues, p.real.continues = p.continueOf(path)
	case 3:
		query.Set("resourceVersion", "[rv "+p.nodePath()+"]")
		query.Set("resourceVersionMatch", pick(p, "Exact", "NotOlderThan", "Wrong"))
	case 4:
		query.Set("resourceVersion", pick(p, "x", "-1"))
	}
	return step{method: "GET", path: path, query: query, fresh: query.Has("resourceVersionMatch")}
}

// continueOf gets the token of a first page from both servers.
func (p *pair) continueOf(path string) (double, genuine string) {
	for _, side := range []*side{p.real, p.double} {
		side.continues = ""
		side.send(p.t, step{method: "GET", path: path, query: url.Values{"limit": {"1"}}})
	}
	return p.double.continues, p.real.continues
}

func (p *pair) lease() object {
	spec := object{"holderIdentity": pick(p, "one", "two"), "leaseDurationSeconds": pick(p, 15, 15, 15, 0), "renewTime": "2024-01-01T00:00:00.000000Z"}
	return object{"spec": spec}
}

// simpleStep works on kinds without rules of their own.
func (p *pair) simpleStep(collection string, content func() object) step {
	name := pick(p, "o1", "o2")
	if strings.Contains(collection, "events.k8s.io") {
		name = "e1" // an event is written by one version of the API
	}
	path := collection + "/" + name
	body := content()
	body["metadata"] = p.metadata(name)
	switch n := p.random.IntN(100); {
	case n < 25:
		if p.chance(20) {
			delete(body["metadata"].(object), "name")
			if p.chance(70) {
				p.generated++ // generated names sort like their prefixes
				body["metadata"].(object)["generateName"] = fmt.Sprintf("made-%d-", 100+p.generated)
			}
		}
		return step{method: "POST", path: collection, body: constant(body)}
	case n < 35:
		return step{method: "GET", path: path}
	case n < 45:
		return p.listStep(collection)
	case n < 65:
		return p.updateStep(path, func(o object) {
			update(o, body["metadata"].(object))
			for key, value := range body {
				if key != "metadata" {
					o[key] = value
				}
			}
		})
	case n < 80:
		return p.deleteStep(path)
	}
	made := p.patchStep(path, pick(p, mergePatch, strategicPatch), content())
	made.path = path
	return made
}

func (p *pair) ports() []any {
	ports := []any{}
	for i := range pick(p, 1, 1, 1, 2, 0) {
		port := object{"port": 80 + i}
		if p.chance(80) {
			port["name"] = fmt.Sprintf("p%d", i)
		}
		if p.chance(20) {
			port["protocol"] = pick(p, "UDP", "UDP", "WRONG")
		}
		if p.chance(15) {
			port["nodePort"] = pick(p, 30001, 30002, 99)
		}
		if p.chance(10) {
			port["targetPort"] = pick[any](p, "http", 8080)
		}
		ports = append(ports, port)
	}
	return ports
}

func (p *pair) serviceSpec() object {
	spec := object{"type": pick(p, "LoadBalancer", "LoadBalancer", "LoadBalancer", "NodePort", "ClusterIP", "ExternalName"), "ports": p.ports(), "selector": object{"app": "x"}}
	if p.chance(20) {
		spec["externalTrafficPolicy"] = pick(p, "Local", "Local", "Cluster", "Wrong")
	}
	if p.chance(10) {
		spec["loadBalancerClass"] = pick(p, "example.com/one", "example.com/two")
	}
	if p.chance(10) {
		spec["allocateLoadBalancerNodePorts"] = pick(p, true, false)
	}
	if p.chance(10) {
		spec["ipFamilyPolicy"] = pick(p, "SingleStack", "PreferDualStack", "RequireDualStack")
	}
	if p.chance(5) {
		spec["clusterIP"] = pick(p, "None", "10.96.0.5", "192.0.2.1")
	}
	if p.chance(10) {
		spec["loadBalancerSourceRanges"] = []any{pick(p, "192.0.2.0/24", "wrong")}
	}
	if p.chance(10) {
		spec["sessionAffinity"] = "ClientIP"
	}
	if spec["type"] == "ExternalName" && p.chance(80) {
		spec["externalName"] = "example.com"
		delete(spec, "clusterIP")
	}
	return spec
}

func (p *pair) serviceStep() step {
	collection := p.in("", "v1", "services")
	name := pick(p, "s1", "s1", "s2")
	path := collection + "/" + name
	ingress := object{"loadBalancer": object{"ingress": []any{object{"ip": pick(p, "192.0.2.1", "192.0.2.2", "wrong")}}}}
	switch n := p.random.IntN(100); {
	case n < 30:
		return step{method: "POST", path: collection, body: constant(object{"metadata": p.metadata(name), "spec": p.serviceSpec(), "status": ingress})}
	case n < 35:
		return step{method: "GET", path: path}
	case n < 45:
		return p.listStep(collection)
	case n < 55:
		about, spec := p.metadata(name), p.serviceSpec()
		keys := []string{"type", "externalTrafficPolicy", "allocateLoadBalancerNodePorts", "sessionAffinity", "selector", "externalName"}
		return p.updateStep(path, func(o object) {
			update(o, about)
			old, ok := o["spec"].(object)
			if !ok {
				o["spec"] = spec
				return
			}
			for _, key := range keys {
				if value, ok := spec[key]; ok {
					old[key] = value
				}
			}
		})
	case n < 65:
		return p.updateStep(path+"/status", func(o object) { o["status"] = ingress; o["spec"] = object{"type": "NodePort"} })
	case n < 75:
		return p.deleteStep(path)
	case n < 82:
		return step{method: "PATCH", path: path + "/status", contentType: pick(p, mergePatch, strategicPatch), body: constant(object{"status": ingress})}
	}
	spec := p.serviceSpec()
	for _, key := range []string{"ports", "clusterIP", "ipFamilyPolicy"} {
		if p.chance(80) {
			delete(spec, key)
		}
	}
	return p.patchStep(path, pick(p, mergePatch, strategicPatch), object{"spec": spec, "status": ingress})
}

func (p *pair) eventStep() step {
	regarding := object{"kind": "Node", "name": pick(p, "n0", "n1")}
	if p.chance(80) {
		regarding["namespace"] = p.namespace
	}
	if p.chance(50) {
		return p.simpleStep(p.in("", "v1", "events"), func() object {
			return object{"involvedObject": regarding, "reason": pick(p, "One", "Two"), "message": "x", "type": "Normal", "count": p.random.IntN(3), "source": object{"component": "test"}}
		})
	}
	return p.simpleStep(p.in("events.k8s.io", "v1", "events"), func() object {
		return object{"regarding": regarding, "reason": pick(p, "One", "Two"), "note": "x", "type": "Normal", "action": "Test", "eventTime": "2024-01-01T00:00:00.000000Z",
			"reportingController": "example.com/test", "reportingInstance": "one"}
	})
}

// requestStep works on certificate requests.
func (p *pair) requestStep() step {
	collection := "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	path := collection + "/c1"
	condition := object{"type": pick(p, "Approved", "Approved", "Denied"), "status": "True", "reason": "Test", "message": "x",
		"lastUpdateTime": "2024-01-01T00:00:00Z", "lastTransitionTime": "2024-01-01T00:00:00Z"}
	switch n := p.random.IntN(100); {
	case n < 40:
		return step{method: "POST", path: collection, body: constant(object{"metadata": object{"name": "c1"}, "spec": object{
			"signerName": "example.com/signer", "usages": []any{"digital signature"}, "request": certificateRequest}})}
	case n < 70:
		return p.updateStep(path+"/approval", func(o object) { o["status"] = object{"conditions": []any{condition}} })
	case n < 80:
		return p.updateStep(path, func(o object) { o["status"] = object{"conditions": []any{condition}} })
	case n < 90:
		return step{method: "GET", path: path}
	}
	return step{method: "DELETE", path: path}
}

// badStep is a request that the API server refuses before it looks at objects.
func (p *pair) badStep() step {
	return pick(p,
		step{method: "GET", path: "/api/v1/nodes/none"},
		step{method: "GET", path: "/api/v1/wrong"},
		step{method: "GET", path: "/api/v1/nodes", accept: "application/wrong"},
		step{method: "POST", path: "/api/v1/nodes", contentType: "application/wrong", body: constant(object{})},
		step{method: "POST", path: "/api/v1/nodes", body: constant("{")},
		step{method: "POST", path: "/api/v1/nodes", body: constant(object{"metadata": object{"name": "n9"}, "kind": "Service", "apiVersion": "v1"})},
		step{method: "POST", path: "/api/v1/nodes", body: constant(object{})},
		step{method: "POST", path: "/api/v1/namespaces/none/services", body: constant(object{"metadata": object{"name": "x"}, "spec": object{"ports": []any{object{"port": 1}}}})},
		step{method: "POST", path: p.in("", "v1", "configmaps"), body: constant(object{"metadata": object{"name": "x", "namespace": "default"}})},
		step{method: "PATCH", path: p.nodePath(), contentType: "application/wrong", body: constant(object{})},
		step{method: "PATCH", path: p.nodePath(), contentType: jsonPatch, body: constant("{}")},
		step{method: "PATCH", path: p.nodePath(), contentType: mergePatch, body: constant("[")},
		step{method: "PATCH", path: p.nodePath(), contentType: strategicPatch, body: constant("[]")},
		step{method: "PUT", path: "/api/v1/nodes"},
		step{method: "PUT", path: p.nodePath() + "/wrong"},
		step{method: "GET", path: p.nodePath() + "/status"},
		step{method: "DELETE", path: p.nodePath() + "/status"},
		step{method: "POST", path: p.nodePath()},
		step{method: "GET", path: "/api/v1/nodes", query: url.Values{"watch": {"true"}, "resourceVersion": {"x"}}},
		step{method: "GET", path: "/api/v1/nodes", query: url.Values{"watch": {"true"}, "sendInitialEvents": {"true"}}},
		step{method: "POST", path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			body: constant(object{"spec": object{"resourceAttributes": object{"verb": "get", "resource": "nodes"}}})},
	)
}

// sentinels are objects that all watches show, and that end them.
func (p *pair) sentinels() []step {
	about := object{"name": "sentinel", "labels": object{"a": "1"}}
	return []step{
		{method: "POST", path: "/api/v1/nodes", body: constant(object{"metadata": about, "spec": object{"unschedulable": true}})},
		{method: "POST", path: p.in("", "v1", "services"), body: constant(object{"metadata": about, "spec": object{"type": "LoadBalancer", "ports": []any{object{"port": 80}}}})},
		{method: "POST", path: p.in("coordination.k8s.io", "v1", "leases"), body: constant(object{"metadata": about})},
	}
}

// certificateRequest is in PEM, as JSON has bytes.
var certificateRequest = func() string {
	encoded, err := json.Marshal(newCertificateRequest())
	if err != nil {
		panic(err) // bytes
	}
	return strings.Trim(string(encoded), `"`)
}()
