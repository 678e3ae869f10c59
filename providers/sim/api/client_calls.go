package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// The paths of the API.
const (
	PathZones         = "/v1/zones"
	PathMachineTypes  = "/v1/machinetypes"
	PathInstances     = "/v1/instances"
	PathInstanceNames = "/v1/instancenames"
	PathLoadBalancers = "/v1/loadbalancers"
	PathRoutes        = "/v1/routes"
	PathRouteChanges  = "/v1/routechanges"
	PathAdminKnobs    = "/v1/admin/knobs"
	PathAdminFaults   = "/v1/admin/faults"
	PathAdminCounts   = "/v1/admin/counts"
)

// ListZones lists the zones of all regions.
func (c *Client) ListZones(ctx context.Context, yield func([]Zone) error) error {
	return list(ctx, &c.connection, OpListZones, PathZones, nil, func(z Zone) string { return z.Name }, yield)
}

// ListMachineTypes lists the machine types.
func (c *Client) ListMachineTypes(ctx context.Context, yield func([]MachineType) error) error {
	return list(ctx, &c.connection, OpListMachineTypes, PathMachineTypes, nil, func(m MachineType) string { return m.Name }, yield)
}

// ListInstances lists every instance of the account and hands the pages to yield. It returns nil only when yield has seen
// every instance, an *IncompleteListError if pages are missing, and an error of yield as it is.
func (c *Client) ListInstances(ctx context.Context, yield func([]Instance) error) error {
	return list(ctx, &c.connection, OpListInstances, PathInstances, nil, func(i Instance) string { return i.ID }, yield)
}

// GetInstance returns one instance, or CodeNotFound if no instance has that ID.
func (c *Client) GetInstance(ctx context.Context, id string) (*Instance, error) {
	return c.instance(ctx, call{op: OpGetInstance, method: http.MethodGet, path: PathInstances + "/" + url.PathEscape(id)})
}

// GetInstanceByName returns one instance, or CodeNotFound if no instance has that name.
func (c *Client) GetInstanceByName(ctx context.Context, name string) (*Instance, error) {
	return c.instance(ctx, call{op: OpGetInstanceByName, method: http.MethodGet, path: PathInstanceNames + "/" + url.PathEscape(name)})
}

// CreateInstance creates an instance; CodeConflict if one with that name exists.
func (c *Client) CreateInstance(ctx context.Context, spec InstanceSpec) (*Instance, error) {
	return c.instance(ctx, call{op: OpCreateInstance, method: http.MethodPost, path: PathInstances, in: spec})
}

// UpdateInstance replaces the spec of an instance. With a generation it does so only if that is still the current one,
// and returns CodePreconditionFailed otherwise; zero overwrites.
func (c *Client) UpdateInstance(ctx context.Context, id string, spec InstanceSpec, generation int64) (*Instance, error) {
	path := PathInstances + "/" + url.PathEscape(id)
	return c.instance(ctx, call{op: OpUpdateInstance, method: http.MethodPut, path: path, in: spec, generation: generation})
}

// DeleteInstance deletes an instance. The error is CodeNotFound if there is no such instance. The generation is as in UpdateInstance.
func (c *Client) DeleteInstance(ctx context.Context, id string, generation int64) error {
	path := PathInstances + "/" + url.PathEscape(id)
	return c.do(ctx, call{op: OpDeleteInstance, method: http.MethodDelete, path: path, generation: generation})
}

func (c *Client) instance(ctx context.Context, call call) (*Instance, error) {
	var answer Instance
	call.out = &answer
	if err := c.do(ctx, call); err != nil {
		return nil, err
	}
	if answer.ID == "" || answer.Name == "" || answer.State == "" {
		return nil, &AnswerError{Operation: call.op, Err: errors.New("an instance without id, name or state")}
	}
	return &answer, nil
}

// ListLoadBalancers lists every load balancer of the account that has all the given tags; nil tags list all.
func (c *Client) ListLoadBalancers(ctx context.Context, tags map[string]string, yield func([]LoadBalancer) error) error {
	query := url.Values{}
	for key, value := range tags {
		query.Add("tag", key+"="+value)
	}
	return list(ctx, &c.connection, OpListLoadBalancers, PathLoadBalancers, query, func(l LoadBalancer) string { return l.Name }, yield)
}

// GetLoadBalancer returns one load balancer, or CodeNotFound if no load balancer has that name.
func (c *Client) GetLoadBalancer(ctx context.Context, name string) (*LoadBalancer, error) {
	return c.loadBalancer(ctx, call{op: OpGetLoadBalancer, method: http.MethodGet, path: PathLoadBalancers + "/" + url.PathEscape(name)})
}

// CreateLoadBalancer creates a load balancer; CodeConflict if one with that name exists.
func (c *Client) CreateLoadBalancer(ctx context.Context, spec LoadBalancerSpec) (*LoadBalancer, error) {
	return c.loadBalancer(ctx, call{op: OpCreateLoadBalancer, method: http.MethodPost, path: PathLoadBalancers, in: spec})
}

// UpdateLoadBalancer replaces the spec of the load balancer of that name. The generation is as in UpdateInstance.
func (c *Client) UpdateLoadBalancer(ctx context.Context, spec LoadBalancerSpec, generation int64) (*LoadBalancer, error) {
	path := PathLoadBalancers + "/" + url.PathEscape(spec.Name)
	return c.loadBalancer(ctx, call{op: OpUpdateLoadBalancer, method: http.MethodPut, path: path, in: spec, generation: generation})
}

// DeleteLoadBalancer deletes a load balancer. The error is CodeNotFound if there is no such load balancer. The generation is as in UpdateInstance.
func (c *Client) DeleteLoadBalancer(ctx context.Context, name string, generation int64) error {
	path := PathLoadBalancers + "/" + url.PathEscape(name)
	return c.do(ctx, call{op: OpDeleteLoadBalancer, method: http.MethodDelete, path: path, generation: generation})
}

// ChangeTargets adds targets to the load balancer of that name and removes others. The error is CodeNotFound if there is no such load balancer,
// CodePreconditionFailed if it has not the change's tags, and CodeConflict if it is not active.
func (c *Client) ChangeTargets(ctx context.Context, name string, change TargetsChange) (*LoadBalancer, error) {
	path := PathLoadBalancers + "/" + url.PathEscape(name) + "/targets"
	return c.loadBalancer(ctx, call{op: OpChangeTargets, method: http.MethodPost, path: path, in: change})
}

func (c *Client) loadBalancer(ctx context.Context, call call) (*LoadBalancer, error) {
	var answer LoadBalancer
	call.out = &answer
	if err := c.do(ctx, call); err != nil {
		return nil, err
	}
	if answer.ID == "" || answer.Name == "" || answer.State == "" {
		return nil, &AnswerError{Operation: call.op, Err: errors.New("a load balancer without id, name or state")}
	}
	return &answer, nil
}

// ListRoutes lists every route of a cluster, of all clusters when it is empty.
func (c *Client) ListRoutes(ctx context.Context, cluster string, yield func([]Route) error) error {
	query := url.Values{}
	if cluster != "" {
		query.Set("cluster", cluster)
	}
	return list(ctx, &c.connection, OpListRoutes, PathRoutes, query, func(r Route) string { return r.ID }, yield)
}

// CreateRoute creates a route. If the cluster has the same route to the same target, that one is returned; if it has one to
// another target, or as many routes as Knobs.MaxRoutes allows, the error is CodeConflict.
func (c *Client) CreateRoute(ctx context.Context, spec RouteSpec) (*Route, error) {
	return c.route(ctx, call{op: OpCreateRoute, method: http.MethodPost, path: PathRoutes, in: spec})
}

// ReplaceRoute changes the target of a route, at once: packets are lost neither before nor after. The error is CodeNotFound if
// there is no route with that ID, and CodeInvalid if the spec is for another cluster or destination.
func (c *Client) ReplaceRoute(ctx context.Context, id string, spec RouteSpec) (*Route, error) {
	return c.route(ctx, call{op: OpReplaceRoute, method: http.MethodPut, path: PathRoutes + "/" + url.PathEscape(id), in: spec})
}

func (c *Client) route(ctx context.Context, call call) (*Route, error) {
	var answer Route
	call.out = &answer
	if err := c.do(ctx, call); err != nil {
		return nil, err
	}
	if answer.ID == "" {
		return nil, &AnswerError{Operation: call.op, Err: errors.New("a route without an ID")}
	}
	return &answer, nil
}

// DeleteRoute deletes a route. The error is CodeNotFound if no route has that ID.
func (c *Client) DeleteRoute(ctx context.Context, id string) error {
	return c.do(ctx, call{op: OpDeleteRoute, method: http.MethodDelete, path: PathRoutes + "/" + url.PathEscape(id)})
}

// ChangeRoutes makes up to MaxRouteChanges changes of routes, and returns what became of each: nil, or an *Error as the change would
// have had as a call of its own.
func (c *Client) ChangeRoutes(ctx context.Context, changes []RouteChange) ([]error, error) {
	var answer RouteResults
	err := c.do(ctx, call{op: OpChangeRoutes, method: http.MethodPost, path: PathRouteChanges, in: RouteChanges{changes}, out: &answer})
	if err != nil {
		return nil, err
	}
	if len(answer.Results) != len(changes) {
		err := fmt.Errorf("%d results for %d changes", len(answer.Results), len(changes))
		return nil, &AnswerError{Operation: OpChangeRoutes, Err: err}
	}
	errs := make([]error, len(changes))
	for i, result := range answer.Results {
		switch {
		case result.Error != nil:
			result.Error.Operation, result.Error.Status = OpChangeRoutes, result.Status
			result.Error.checkCode()
			errs[i] = result.Error
		case result.Status != http.StatusOK:
			return nil, &AnswerError{Operation: OpChangeRoutes, Err: fmt.Errorf("a result with status %d and no error", result.Status)}
		}
	}
	return errs, nil
}

// Knobs returns the current knobs.
func (a *Admin) Knobs(ctx context.Context) (Knobs, error) {
	var knobs Knobs
	err := a.do(ctx, call{op: "GetKnobs", method: http.MethodGet, path: PathAdminKnobs, out: &knobs})
	return knobs, err
}

// SetKnobs replaces all knobs.
func (a *Admin) SetKnobs(ctx context.Context, knobs Knobs) error {
	return a.do(ctx, call{op: "SetKnobs", method: http.MethodPut, path: PathAdminKnobs, in: knobs})
}

// AddFault adds a fault behind the existing ones.
func (a *Admin) AddFault(ctx context.Context, fault Fault) error {
	return a.do(ctx, call{op: "AddFault", method: http.MethodPost, path: PathAdminFaults, in: fault})
}

// Faults returns the faults that are still to come.
func (a *Admin) Faults(ctx context.Context) (Faults, error) {
	var faults Faults
	err := a.do(ctx, call{op: "ListFaults", method: http.MethodGet, path: PathAdminFaults, out: &faults})
	return faults, err
}

// ClearFaults removes all faults and ends the calls that hang because of one.
func (a *Admin) ClearFaults(ctx context.Context) error {
	return a.do(ctx, call{op: "ClearFaults", method: http.MethodDelete, path: PathAdminFaults})
}

// Counts returns the calls since the start or the last reset.
func (a *Admin) Counts(ctx context.Context) (Counts, error) {
	var counts Counts
	err := a.do(ctx, call{op: "GetCounts", method: http.MethodGet, path: PathAdminCounts, out: &counts})
	return counts, err
}

// ResetCounts starts counting anew.
func (a *Admin) ResetCounts(ctx context.Context) error {
	return a.do(ctx, call{op: "ResetCounts", method: http.MethodDelete, path: PathAdminCounts})
}
