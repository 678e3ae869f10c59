package cloudsim

import (
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// instance is an instance as it is kept. What a client sees of it depends on the time.
type instance struct {
	api.Instance
	// SettlesAt is when it stops being pending.
	SettlesAt time.Time `json:"settlesAt"`
	// Fails says that it ends in state error.
	Fails bool `json:"fails,omitempty"`
}

// newInstance returns the record of a new instance. The spec is complete and valid.
func newInstance(number int64, spec api.InstanceSpec, region string, now, settlesAt time.Time) instance {
	return instance{
		Instance: api.Instance{
			InstanceSpec: spec, ID: fmt.Sprintf("i-%08d", number), Region: region, Generation: 1, CreatedAt: now.UTC(),
		},
		SettlesAt: settlesAt.UTC(),
	}
}

// at returns the instance as it is at a time.
func (i instance) at(now time.Time) api.Instance {
	view := i.Instance
	switch {
	case now.Before(i.SettlesAt):
		view.State = api.InstancePending
	case i.Fails:
		view.State, view.StateReason = api.InstanceFailed, "the creation failed"
	case i.Power == api.PowerOff:
		view.State = api.InstanceStopped
	default:
		view.State = api.InstanceRunning
	}
	return view
}

// Instances returns all instances in the order of their IDs, as the cloud itself knows them: this is not a call, is not counted
// and never lags.
func (s *Service) Instances() []api.Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	var all []api.Instance
	for _, id := range sortedNames(s.instances.live) {
		all = append(all, s.instances.live[id].at(now))
	}
	return all
}

func (s *Service) listInstances(_ *request) []any {
	upTo := s.listTime()
	s.mu.Lock()
	records := s.instances.list(upTo)
	s.mu.Unlock()
	items := make([]any, len(records))
	for i, record := range records {
		items[i] = record.at(upTo)
	}
	return items
}

// listTime is the time up to which lists know the writes.
func (s *Service) listTime() time.Time {
	return s.clock.Now().Add(-s.behavior.get().ListLag.Duration)
}

func (s *Service) getInstance(r *request) (answer, error) {
	id := r.PathValue("id")
	record, ok := s.instances.get(id)
	if !ok {
		return answer{}, notFound("instance", id)
	}
	return s.instanceAnswer(record), nil
}

func (s *Service) getInstanceByName(r *request) (answer, error) {
	name := r.PathValue("name")
	record, ok := s.instanceNamed(name)
	if !ok {
		return answer{}, notFound("instance named", name)
	}
	return s.instanceAnswer(record), nil
}

// instanceNamed finds an instance by its name. Called with mu held.
func (s *Service) instanceNamed(name string) (instance, bool) {
	for record := range maps.Values(s.instances.live) {
		if record.Name == name {
			return record, true
		}
	}
	return instance{}, false
}

func (s *Service) instanceAnswer(record instance) answer {
	view := record.at(s.clock.Now())
	return answer{body: view, generation: view.Generation}
}

func (s *Service) createInstance(r *request, spec api.InstanceSpec, misfits field.ErrorList) (answer, error) {
	if err := valid(misfits, validateInstance(spec, s.catalog(), nil)); err != nil {
		return answer{}, err
	}
	if existing, ok := s.instanceNamed(spec.Name); ok {
		return answer{}, conflict(existing.ID, "an instance named %q exists: %s", spec.Name, existing.ID)
	}
	now := s.clock.Now()
	settlesAt := now.Add(s.behavior.get().InstanceDelay.Duration)
	zone, _ := s.zones.get(spec.Zone)
	s.meta.LastID++
	record := newInstance(s.meta.LastID, complete(spec), zone.Region, now, settlesAt)
	record.Fails = r.failsLater()
	if err := s.store.commit(s.nextRevision(), change{bucketInstances, record.ID, record}); err != nil {
		return answer{}, err
	}
	s.instances.put(now, record.ID, record)
	s.wasSet(record, now)
	s.log.Info("instance created", "instance", record.ID, "name", record.Name, "zone", record.Zone, "type", record.MachineType)
	return s.instanceAnswer(record), nil
}

func (s *Service) updateInstance(r *request, spec api.InstanceSpec, misfits field.ErrorList) (answer, error) {
	generation, err := r.generation()
	if err != nil {
		return answer{}, err
	}
	id := r.PathValue("id")
	record, ok := s.instances.get(id)
	if !ok {
		return answer{}, notFound("instance", id)
	}
	errs := validateInstance(spec, s.catalog(), nil)
	if spec.Name != record.Name {
		errs = append(errs, field.Invalid(field.NewPath("name"), spec.Name, "cannot be changed from "+record.Name))
	}
	if err := valid(misfits, errs); err != nil {
		return answer{}, err
	}
	if err := checkGeneration(generation, record.Generation); err != nil {
		return answer{}, err
	}
	zone, _ := s.zones.get(spec.Zone)
	record.InstanceSpec, record.Region = complete(spec), zone.Region
	record.Generation++
	if err := s.store.commit(s.nextRevision(), change{bucketInstances, id, record}); err != nil {
		return answer{}, err
	}
	now := s.clock.Now()
	s.instances.put(now, id, record)
	s.wasSet(record, now)
	s.log.Info("instance changed", "instance", id, "name", record.Name, "generation", record.Generation)
	return s.instanceAnswer(record), nil
}

func (s *Service) deleteInstance(r *request) (answer, error) {
	generation, err := r.generation()
	if err != nil {
		return answer{}, err
	}
	id := r.PathValue("id")
	record, ok := s.instances.get(id)
	if !ok {
		return answer{}, notFound("instance", id)
	}
	if err := checkGeneration(generation, record.Generation); err != nil {
		return answer{}, err
	}
	if err := s.store.commit(s.nextRevision(), change{bucketInstances, id, nil}); err != nil {
		return answer{}, err
	}
	s.instances.remove(s.clock.Now(), id)
	s.wasDeleted(id)
	s.log.Info("instance deleted", "instance", id, "name", record.Name)
	return answer{body: struct{}{}}, nil
}
