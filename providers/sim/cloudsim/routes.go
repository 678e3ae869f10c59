package cloudsim

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// route is a route as it is kept. Whether it is a black hole depends on the instances.
type route struct {
	api.Route
}

func (s *Service) listRoutes(r *request) []any {
	upTo := s.listTime()
	cluster := r.URL.Query().Get("cluster")
	s.mu.Lock()
	defer s.mu.Unlock()
	items := []any{}
	for _, record := range s.routes.list(upTo) {
		if cluster == "" || record.Cluster == cluster {
			items = append(items, s.routeView(record))
		}
	}
	return items
}

// routeView adds what is known of the target. Called with mu held.
func (s *Service) routeView(record route) api.Route {
	view := record.Route
	if target, ok := s.instances.get(record.TargetInstance); ok {
		view.TargetName = target.Name
	} else {
		view.Blackhole = true
	}
	return view
}

func (s *Service) createRoute(r *request, spec api.RouteSpec, misfits field.ErrorList) (answer, error) {
	record, isNew, err := s.newRoute(spec, misfits)
	if err != nil || !isNew {
		return answer{body: s.routeView(record)}, err
	}
	if err := s.store.commit(s.metaChange(), change{bucketRoutes, record.ID, record}); err != nil {
		return answer{}, err
	}
	s.routes.put(s.clock.Now(), record.ID, record)
	s.log.Info("route created", "route", record.ID, "cluster", spec.Cluster, "destination", spec.DestinationCIDR,
		"instance", spec.TargetInstance)
	return answer{body: s.routeView(record)}, nil
}

// newRoute returns the route that a spec asks for, and whether there is none like it yet. Called with mu held.
func (s *Service) newRoute(spec api.RouteSpec, misfits field.ErrorList) (record route, isNew bool, err error) {
	if err := valid(misfits, validateRoute(spec, s.hasInstance)); err != nil {
		return route{}, false, err
	}
	if existing, ok := s.routeTo(spec.Cluster, spec.DestinationCIDR); ok {
		if existing.TargetInstance != spec.TargetInstance {
			return route{}, false, conflict(existing.ID, "cluster %q has a route to %s already, by instance %s",
				spec.Cluster, spec.DestinationCIDR, existing.TargetInstance)
		}
		return existing, false, nil
	}
	if most := s.behavior.get().MaxRoutes; most > 0 && s.routesOf(spec.Cluster) >= most {
		return route{}, false, conflict("", "cluster %q has %d routes already, which is the limit", spec.Cluster, most)
	}
	s.meta.LastID++
	id := fmt.Sprintf("r-%08d", s.meta.LastID)
	return route{api.Route{RouteSpec: spec, ID: id, CreatedAt: s.clock.Now().UTC()}}, true, nil
}

func (s *Service) replaceRoute(r *request, spec api.RouteSpec, misfits field.ErrorList) (answer, error) {
	id := r.PathValue("id")
	record, err := s.replacedRoute(id, spec, misfits)
	if err != nil {
		return answer{}, err
	}
	before := s.routes.live[id].TargetInstance
	if err := s.store.commit(change{bucketRoutes, id, record}); err != nil {
		return answer{}, err
	}
	s.routes.put(s.clock.Now(), id, record)
	s.log.Info("route replaced", "route", id, "cluster", spec.Cluster, "destination", spec.DestinationCIDR,
		"before", before, "instance", spec.TargetInstance)
	return answer{body: s.routeView(record)}, nil
}

// replacedRoute returns what a route is when its spec is another. Called with mu held.
func (s *Service) replacedRoute(id string, spec api.RouteSpec, misfits field.ErrorList) (route, error) {
	record, ok := s.routes.get(id)
	if !ok {
		return route{}, notFound("route", id)
	}
	errs := validateRoute(spec, s.hasInstance)
	if spec.Cluster != record.Cluster {
		errs = append(errs, field.Invalid(field.NewPath("cluster"), spec.Cluster, "cannot be changed from "+record.Cluster))
	}
	if spec.DestinationCIDR != record.DestinationCIDR {
		errs = append(errs, field.Invalid(field.NewPath("destinationCIDR"), spec.DestinationCIDR, "cannot be changed from "+record.DestinationCIDR))
	}
	record.RouteSpec = spec
	return record, valid(misfits, errs)
}

// RouteCount returns how many routes a cluster has, as the cloud itself knows them: this is not a call, is not counted and never lags.
func (s *Service) RouteCount(cluster string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.routesOf(cluster)
}

// routesOf counts the routes of a cluster. Called with mu held.
func (s *Service) routesOf(cluster string) int {
	count := 0
	for record := range maps.Values(s.routes.live) {
		if record.Cluster == cluster {
			count++
		}
	}
	return count
}

// routeTo finds the route of a cluster to a destination. Called with mu held.
func (s *Service) routeTo(cluster, destination string) (route, bool) {
	for record := range maps.Values(s.routes.live) {
		if record.Cluster == cluster && record.DestinationCIDR == destination {
			return record, true
		}
	}
	return route{}, false
}

func (s *Service) deleteRoute(r *request) (answer, error) {
	id := r.PathValue("id")
	record, ok := s.routes.get(id)
	if !ok {
		return answer{}, notFound("route", id)
	}
	if err := s.store.commit(change{bucketRoutes, id, nil}); err != nil {
		return answer{}, err
	}
	s.routes.remove(s.clock.Now(), id)
	s.log.Info("route deleted", "route", id, "cluster", record.Cluster, "destination", record.DestinationCIDR)
	return answer{body: struct{}{}}, nil
}
