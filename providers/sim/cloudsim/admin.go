package cloudsim

import (
	"io"
	"net/http"

	"github.com/mooring-ccm/mooring/providers/internal/strict"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// adminEndpoints is the admin API. Its calls have no latency, no quota, no faults and are not counted.
func (s *Service) adminEndpoints() map[string]func(body []byte) (any, error) {
	done := struct{}{}
	return map[string]func([]byte) (any, error){
		"GET " + api.PathAdminKnobs: func([]byte) (any, error) { return s.Knobs(), nil },
		"PUT " + api.PathAdminKnobs: func(body []byte) (any, error) {
			var knobs api.Knobs
			misfits := strict.JSON(body, &knobs)
			if err := valid(misfits, ValidateKnobs(knobs)); err != nil {
				return nil, err
			}
			s.behavior.set(knobs)
			return s.Knobs(), nil
		},
		"GET " + api.PathAdminFaults: func([]byte) (any, error) { return api.Faults{Items: s.Faults()}, nil },
		"POST " + api.PathAdminFaults: func(body []byte) (any, error) {
			var fault api.Fault
			misfits := strict.JSON(body, &fault)
			if err := valid(misfits, ValidateFault(fault)); err != nil {
				return nil, err
			}
			s.faults.add(fault)
			return done, nil
		},
		"DELETE " + api.PathAdminFaults: func([]byte) (any, error) { s.ClearFaults(); return done, nil },
		"GET " + api.PathAdminCounts:    func([]byte) (any, error) { return s.Counts(), nil },
		"DELETE " + api.PathAdminCounts: func([]byte) (any, error) { s.ResetCounts(); return done, nil },
	}
}

func (s *Service) serveAdmin(w http.ResponseWriter, r *http.Request, serve func([]byte) (any, error)) {
	result, err := s.admin(r, serve)
	if err != nil {
		refuse(w, refusalOf(err))
		return
	}
	respond(w, answer{body: result})
}

func (s *Service) admin(r *http.Request, serve func([]byte) (any, error)) (any, error) {
	if s.options.AdminToken == nil {
		return nil, &api.Error{Status: http.StatusForbidden, Code: api.CodeForbidden, Message: "this cloud has no admin API"}
	}
	if err := s.authenticate(r, s.options.AdminToken); err != nil {
		return nil, err
	}
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	_, _ = io.Copy(io.Discard, r.Body)
	return serve(body)
}
