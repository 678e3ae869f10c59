package cloudsim

import (
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// changeTargets adds targets to a load balancer and removes others. It does not look at targets that stay, whether or not their instances
// still exist.
func (s *Service) changeTargets(r *request, asked api.TargetsChange, misfits field.ErrorList) (answer, error) {
	name := r.PathValue("name")
	record, ok := s.loadBalancers.get(name)
	if !ok {
		return answer{}, notFound("load balancer", name)
	}
	if err := valid(misfits, validateTargetsChange(asked, s.hasInstance)); err != nil {
		return answer{}, err
	}
	if err := checkTags(asked.Tags, record.Tags); err != nil {
		return answer{}, err
	}
	if state := record.at(s.clock.Now()).State; state != api.LoadBalancerActive {
		return answer{}, conflict(record.ID, "load balancer %q is %s: its targets cannot be changed", name, state)
	}
	targets := slices.Concat(record.Targets, asked.Add)
	targets = slices.DeleteFunc(targets, func(id string) bool { return slices.Contains(asked.Remove, id) })
	targets = slices.Compact(slices.Sorted(slices.Values(targets)))
	if slices.Equal(targets, record.Targets) {
		return s.loadBalancerAnswer(record), nil
	}
	record.Targets = targets
	record.Generation++
	if err := s.store.commit(change{bucketLoadBalancers, name, record}); err != nil {
		return answer{}, err
	}
	s.putLoadBalancer(s.clock.Now(), record)
	s.log.Info("targets changed", "loadBalancer", name, "generation", record.Generation, "targets", len(targets),
		"added", len(asked.Add), "removed", len(asked.Remove))
	return s.loadBalancerAnswer(record), nil
}

func validateTargetsChange(asked api.TargetsChange, exists func(string) bool) field.ErrorList {
	var errs field.ErrorList
	for i, id := range asked.Add {
		path := field.NewPath("add").Index(i)
		if !exists(id) {
			errs = append(errs, field.Invalid(path, id, "there is no such instance"))
		}
		if slices.Contains(asked.Remove, id) {
			errs = append(errs, field.Invalid(path, id, "is to be removed, too"))
		}
	}
	return errs
}

// checkTags refuses a change that was meant for a load balancer with other tags.
func checkTags(wanted, tags map[string]string) error {
	for _, key := range sortedNames(wanted) {
		if got, ok := tags[key]; !ok || got != wanted[key] {
			return &api.Error{
				Status: http.StatusPreconditionFailed, Code: api.CodePreconditionFailed,
				Message: fmt.Sprintf("its tag %s is %q, not %q", key, got, wanted[key]),
			}
		}
	}
	return nil
}
