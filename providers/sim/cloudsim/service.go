package cloudsim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// Service is a simulated cloud. It may be used by many goroutines.
type Service struct {
	options Options
	clock   clock.Clock
	log     logr.Logger
	calls   *calls
	faults  faults
	pages   *snapshots
	closing context.Context
	close   func()

	behavior behavior

	// mu guards what the cloud holds, in the file and in the memory: they change together.
	mu            sync.Mutex
	store         *store
	meta          meta
	zones         collection[api.Zone]
	machineTypes  collection[api.MachineType]
	instances     collection[instance]
	loadBalancers collection[loadBalancer]
	routes        collection[route]
	history       history
	// addressHolders are the names of the load balancers by the addresses that they have.
	addressHolders map[string]string
}

// Open opens the state file and returns the cloud that it holds; a new file is seeded. The error names everything that is
// wrong with the options.
func Open(options Options) (*Service, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	if errs := ValidateKnobs(options.Knobs); len(errs) > 0 {
		return nil, fmt.Errorf("simulated cloud: knobs: %w", errs.ToAggregate())
	}
	if errs := ValidateSeed(*options.Seed); len(errs) > 0 {
		return nil, fmt.Errorf("simulated cloud: seed: %w", errs.ToAggregate())
	}
	file, err := openStore(options.StateFile)
	if err != nil {
		return nil, err
	}
	closing, closeNow := context.WithCancel(context.Background())
	faults := newFaults()
	s := &Service{
		options: options, clock: options.Clock, log: options.Logger, store: file,
		calls: newCalls(), faults: faults, pages: newSnapshots(options.Clock), closing: closing,
		close:          func() { closeNow(); faults.Close() },
		addressHolders: map[string]string{},
		history:        newHistory(),
	}
	s.behavior.set(options.Knobs)
	if err := s.load(); err != nil {
		s.close()
		_ = file.close()
		return nil, err
	}
	return s, nil
}

// Close ends the calls that hang and closes the state file. Nothing is lost without it.
func (s *Service) Close() error {
	s.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store.close()
}

// load reads the state file, and seeds it when it is new.
func (s *Service) load() error {
	stored, err := load[meta](s.store, bucketMeta)
	if err != nil {
		return err
	}
	known, ok := stored["meta"]
	if !ok {
		return s.plant(*s.options.Seed)
	}
	if known.SchemaVersion != schemaVersion {
		return fmt.Errorf("state file %s: has version %d, this program reads %d; start with a new file",
			s.options.StateFile, known.SchemaVersion, schemaVersion)
	}
	s.meta = known
	if err := loadInto(s.store, bucketZones, &s.zones); err != nil {
		return err
	}
	if err := loadInto(s.store, bucketMachineTypes, &s.machineTypes); err != nil {
		return err
	}
	if err := loadInto(s.store, bucketInstances, &s.instances); err != nil {
		return err
	}
	for id, record := range s.instances.live {
		if s.clock.Now().Before(record.SettlesAt) {
			s.history.settling[id] = record.SettlesAt
		}
	}
	if err := loadInto(s.store, bucketLoadBalancers, &s.loadBalancers); err != nil {
		return err
	}
	for _, record := range s.loadBalancers.live {
		s.holdAddresses(record)
	}
	return loadInto(s.store, bucketRoutes, &s.routes)
}

func loadInto[T any](file *store, bucket string, into *collection[T]) error {
	records, err := load[T](file, bucket)
	if err != nil {
		return err
	}
	*into = newCollection(records)
	return nil
}

// plant makes what the seed asks for, in one transaction.
func (s *Service) plant(seed api.Seed) error {
	now := s.clock.Now()
	s.meta = meta{SchemaVersion: schemaVersion}
	zones, types := catalogOf(seed)
	var changes []change
	for name, zone := range zones {
		changes = append(changes, change{bucketZones, name, zone})
	}
	for name, machineType := range types {
		changes = append(changes, change{bucketMachineTypes, name, machineType})
	}
	instances := map[string]instance{}
	for _, spec := range seed.Instances {
		s.meta.LastID++
		record := newInstance(s.meta.LastID, complete(spec), zones[spec.Zone].Region, now, now)
		instances[record.ID] = record
		changes = append(changes, change{bucketInstances, record.ID, record})
	}
	if err := s.store.commit(append(changes, s.metaChange())...); err != nil {
		return err
	}
	s.zones, s.machineTypes = newCollection(zones), newCollection(types)
	s.instances = newCollection(instances)
	s.loadBalancers, s.routes = newCollection(map[string]loadBalancer{}), newCollection(map[string]route{})
	return nil
}

func (s *Service) metaChange() change { return change{bucketMeta, "meta", s.meta} }

// Counts returns the calls since the start or the last ResetCounts.
func (s *Service) Counts() api.Counts { return s.calls.counts() }

// ResetCounts starts counting anew.
func (s *Service) ResetCounts() { s.calls.reset() }

// Knobs returns how the cloud behaves now.
func (s *Service) Knobs() api.Knobs { return s.behavior.get() }

// SetKnobs changes how the cloud behaves, from the next call on. The error names every invalid field.
func (s *Service) SetKnobs(knobs api.Knobs) error {
	if errs := ValidateKnobs(knobs); len(errs) > 0 {
		return errs.ToAggregate()
	}
	s.behavior.set(knobs)
	return nil
}

// AddFault adds a fault behind the existing ones. The error names every invalid field.
func (s *Service) AddFault(fault api.Fault) error {
	if errs := ValidateFault(fault); len(errs) > 0 {
		return errs.ToAggregate()
	}
	s.faults.add(fault)
	return nil
}

// Faults returns the faults that are still to come.
func (s *Service) Faults() []api.Fault { return s.faults.list() }

// ClearFaults removes all faults and ends the calls that hang because of one.
func (s *Service) ClearFaults() { s.faults.Clear() }

// wait lets a duration pass. It returns early, with a refusal, when the client gives up or the cloud stops.
func (s *Service) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := s.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return unavailable("the client gave up")
	case <-s.closing.Done():
		return unavailable("the cloud stops")
	}
}
