package cloudsim

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// changeRoutes makes the changes of a call one after the other, each as the call of its own that it stands for, and writes them to
// the disk together.
func (s *Service) changeRoutes(r *request) (answer, error) {
	var asked api.RouteChanges
	misfits, err := r.decode(&asked)
	if err != nil {
		return answer{}, err
	}
	if count := len(asked.Changes); count < 1 || count > api.MaxRouteChanges {
		misfits = append(misfits, field.Invalid(field.NewPath("changes"), strconv.Itoa(count), fmt.Sprintf("must be 1 to %d", api.MaxRouteChanges)))
	}
	if err := invalid(misfits); err != nil {
		return answer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := maps.Clone(s.routes.live)
	results := make([]api.RouteResult, len(asked.Changes))
	writes := []change{}
	for i, asked := range asked.Changes {
		made, write, err := s.changeRoute(asked)
		if err != nil {
			refusal := refusalOf(err)
			results[i] = api.RouteResult{Status: refusal.Status, Error: refusal}
			continue
		}
		results[i] = api.RouteResult{Status: http.StatusOK, Route: made}
		if write != nil {
			writes = append(writes, *write)
		}
	}
	if err := s.store.commit(append(writes, s.metaChange())...); err != nil {
		s.routes.live = before
		return answer{}, err
	}
	now := s.clock.Now()
	for _, write := range writes {
		if record, ok := write.record.(route); ok {
			s.routes.put(now, write.key, record)
		} else {
			s.routes.remove(now, write.key)
		}
	}
	s.log.Info("routes changed", "changes", len(asked.Changes), "writes", len(writes))
	return answer{body: api.RouteResults{Results: results}}, nil
}

// changeRoute makes one change, of which the disk does not know yet; the write is nil if there is nothing to change. Called with mu
// held.
func (s *Service) changeRoute(asked api.RouteChange) (made *api.Route, write *change, err error) {
	if asked.Spec == nil {
		if _, ok := s.routes.get(asked.ID); !ok {
			return nil, nil, notFound("route", asked.ID)
		}
		delete(s.routes.live, asked.ID)
		return nil, &change{bucketRoutes, asked.ID, nil}, nil
	}
	spec := *asked.Spec
	if asked.TargetName != "" && spec.TargetInstance == "" {
		target, ok := s.instanceNamed(asked.TargetName)
		if !ok {
			return nil, nil, invalidField("targetName", asked.TargetName, "there is no such instance")
		}
		spec.TargetInstance = target.ID
	}
	var record route
	changes := true
	if asked.ID == "" {
		record, changes, err = s.newRoute(spec, nil)
	} else {
		record, err = s.replacedRoute(asked.ID, spec, nil)
	}
	if err != nil {
		return nil, nil, err
	}
	view := s.routeView(record)
	if !changes {
		return &view, nil, nil
	}
	s.routes.live[record.ID] = record
	return &view, &change{bucketRoutes, record.ID, record}, nil
}
