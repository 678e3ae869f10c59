package cloudsim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// loadBalancer is a load balancer as it is kept. What a client sees of it depends on the time.
type loadBalancer struct {
	api.LoadBalancer
	// SettlesAt is when it stops being pending.
	SettlesAt time.Time `json:"settlesAt"`
	// Fails says that it ends in state error.
	Fails bool `json:"fails,omitempty"`
}

// at returns the load balancer as it is at a time: it has its addresses once it is active.
func (l loadBalancer) at(now time.Time) api.LoadBalancer {
	view := l.LoadBalancer
	view.State = api.LoadBalancerActive
	switch {
	case now.Before(l.SettlesAt):
		view.State = api.LoadBalancerPending
	case l.Fails:
		view.State, view.StateReason = api.LoadBalancerFailed, "the creation failed"
	}
	if view.State != api.LoadBalancerActive {
		view.Addresses, view.Hostname = nil, ""
	}
	return view
}

// LoadBalancers returns all load balancers in the order of their names, as the cloud itself knows them: this is not a call, is
// not counted and never lags.
func (s *Service) LoadBalancers() []api.LoadBalancer {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	var all []api.LoadBalancer
	for _, name := range sortedNames(s.loadBalancers.live) {
		all = append(all, s.loadBalancers.live[name].at(now))
	}
	return all
}

func (s *Service) listLoadBalancers(r *request) []any {
	upTo := s.listTime()
	s.mu.Lock()
	records := s.loadBalancers.list(upTo)
	s.mu.Unlock()
	items := []any{}
	for _, record := range records {
		if hasTags(record.Tags, r.URL.Query()["tag"]) {
			items = append(items, record.at(upTo))
		}
	}
	return items
}

// hasTags reports whether tags hold each wanted "key=value".
func hasTags(tags map[string]string, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(w string) bool {
		key, value, _ := strings.Cut(w, "=")
		got, ok := tags[key]
		return !ok || got != value
	})
}

func (s *Service) getLoadBalancer(r *request) (answer, error) {
	name := r.PathValue("name")
	record, ok := s.loadBalancers.get(name)
	if !ok {
		return answer{}, notFound("load balancer", name)
	}
	return s.loadBalancerAnswer(record), nil
}

func (s *Service) loadBalancerAnswer(record loadBalancer) answer {
	view := record.at(s.clock.Now())
	return answer{body: view, generation: view.Generation}
}

func (s *Service) createLoadBalancer(r *request, spec api.LoadBalancerSpec, misfits field.ErrorList) (answer, error) {
	if err := valid(misfits, validateLoadBalancer(spec, s.catalog(), s.hasInstance)); err != nil {
		return answer{}, err
	}
	if existing, ok := s.loadBalancers.get(spec.Name); ok {
		return answer{}, conflict(existing.ID, "a load balancer named %q exists", spec.Name)
	}
	now := s.clock.Now()
	next := s.meta
	next.LastID++
	spec = completeLoadBalancer(spec)
	record := loadBalancer{Fails: r.failsLater(), SettlesAt: now.Add(s.behavior.get().LoadBalancerDelay.Duration).UTC()}
	record.LoadBalancer = api.LoadBalancer{
		LoadBalancerSpec: spec, ID: fmt.Sprintf("lb-%08d", next.LastID), Generation: 1, CreatedAt: now.UTC(),
	}
	if err := s.address(&record, &next); err != nil {
		return answer{}, err
	}
	if err := s.store.commit(change{bucketMeta, "meta", next}, change{bucketLoadBalancers, spec.Name, record}); err != nil {
		return answer{}, err
	}
	s.meta = next
	s.putLoadBalancer(now, record)
	s.log.Info("load balancer created", "loadBalancer", spec.Name, "listeners", len(spec.Listeners), "targets", len(spec.Targets))
	return s.loadBalancerAnswer(record), nil
}

func (s *Service) updateLoadBalancer(r *request, spec api.LoadBalancerSpec, misfits field.ErrorList) (answer, error) {
	generation, err := r.generation()
	if err != nil {
		return answer{}, err
	}
	name := r.PathValue("name")
	record, ok := s.loadBalancers.get(name)
	if !ok {
		return answer{}, notFound("load balancer", name)
	}
	if err := valid(misfits, validateLoadBalancerUpdate(spec, record.LoadBalancerSpec, s.catalog(), s.hasInstance)); err != nil {
		return answer{}, err
	}
	if err := checkGeneration(generation, record.Generation); err != nil {
		return answer{}, err
	}
	if s.clock.Now().Before(record.SettlesAt) {
		return answer{}, conflict(record.ID, "load balancer %q is pending and cannot be changed yet", name)
	}
	next := s.meta
	record.LoadBalancerSpec = completeLoadBalancer(spec)
	record.Generation++
	if err := s.address(&record, &next); err != nil {
		return answer{}, err
	}
	if err := s.store.commit(change{bucketMeta, "meta", next}, change{bucketLoadBalancers, name, record}); err != nil {
		return answer{}, err
	}
	s.meta = next
	s.putLoadBalancer(s.clock.Now(), record)
	s.log.Info("load balancer changed", "loadBalancer", name, "generation", record.Generation, "targets", len(spec.Targets))
	return s.loadBalancerAnswer(record), nil
}

func (s *Service) deleteLoadBalancer(r *request) (answer, error) {
	generation, err := r.generation()
	if err != nil {
		return answer{}, err
	}
	name := r.PathValue("name")
	record, ok := s.loadBalancers.get(name)
	if !ok {
		return answer{}, notFound("load balancer", name)
	}
	if err := checkGeneration(generation, record.Generation); err != nil {
		return answer{}, err
	}
	if err := s.store.commit(change{bucketLoadBalancers, name, nil}); err != nil {
		return answer{}, err
	}
	s.removeLoadBalancer(s.clock.Now(), name)
	s.log.Info("load balancer deleted", "loadBalancer", name)
	return answer{body: struct{}{}}, nil
}

// address gives a load balancer the addresses that its spec asks for. It keeps the addresses that the load balancer has. Called with mu
// held.
func (s *Service) address(record *loadBalancer, next *meta) error {
	used := func(address string) bool {
		holder, held := s.addressHolders[address]
		return held && holder != record.Name
	}
	addresses, lastAddress, err := allocate(record.LoadBalancer, used, next.LastAddress)
	if err != nil {
		return &api.Error{Status: http.StatusConflict, Code: api.CodeConflict, Message: err.Error()}
	}
	record.Addresses, next.LastAddress = addresses, lastAddress
	record.Hostname = ""
	if record.Addressing == api.AddressingHostname {
		record.Hostname = record.Name + ".lb." + record.Region + ".sim.example"
	}
	return nil
}

// putLoadBalancer adds a load balancer, or replaces the one of its name. Called with mu held.
func (s *Service) putLoadBalancer(now time.Time, record loadBalancer) {
	s.releaseAddresses(record.Name)
	s.holdAddresses(record)
	s.loadBalancers.put(now, record.Name, record)
}

// removeLoadBalancer forgets a load balancer, whose addresses others may have then. Called with mu held.
func (s *Service) removeLoadBalancer(now time.Time, name string) {
	s.releaseAddresses(name)
	s.loadBalancers.remove(now, name)
}

func (s *Service) holdAddresses(record loadBalancer) {
	for _, address := range record.Addresses {
		s.addressHolders[address] = record.Name
	}
}

func (s *Service) releaseAddresses(name string) {
	record, _ := s.loadBalancers.get(name)
	for _, address := range record.Addresses {
		delete(s.addressHolders, address)
	}
}

func (s *Service) hasInstance(id string) bool {
	_, ok := s.instances.get(id)
	return ok
}

func validateLoadBalancerUpdate(spec, old api.LoadBalancerSpec, c catalog, exists func(string) bool) field.ErrorList {
	errs := validateLoadBalancer(spec, c, exists)
	if spec.Name != old.Name {
		errs = append(errs, field.Invalid(field.NewPath("name"), spec.Name, "cannot be changed from "+old.Name))
	}
	if spec.Region != old.Region {
		errs = append(errs, field.Invalid(field.NewPath("region"), spec.Region, "cannot be changed from "+old.Region))
	}
	return errs
}
