package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/provider"
)

// pollInterval is how often files are read again. A change of a mounted Secret takes the kubelet up to a minute by itself.
const pollInterval = 10 * time.Second

// Source is a cloud config that follows its files: cloud.conf, clouds.yaml and certificates. A change that does not load, or that may
// not be made to a running process, is not taken: what was there before stays. It is safe for concurrent use.
type Source struct {
	// reloading is held during a reload.
	reloading sync.Mutex

	mu      sync.Mutex
	current *Config
	// data is cloud.conf, unless file names where it is read from. Object is the object of the API server that holds it, if one does.
	data   []byte
	file   string
	object provider.ConfigObject
	// gone is why there is no object any more.
	gone error
	// failure is why what is there now is not in force.
	failure error
}

// Open loads the cloud config that a provider's factory is given. A reader with a name, as an *os.File has, is a file, and followed by
// Run, and so is an object of the API server; of another one only the files that it names are.
func Open(from io.Reader) (*Source, error) {
	if from == nil {
		return nil, errors.New("provider openstack: a cloud config is required: set --cloud-config to cloud.conf")
	}
	s := &Source{}
	if file, ok := from.(interface{ Name() string }); ok {
		s.file = file.Name()
	} else if object, ok := from.(provider.ConfigObject); ok {
		s.object = object
	}
	if s.file == "" {
		data, err := io.ReadAll(from)
		if err != nil {
			return nil, fmt.Errorf("reading the cloud config: %w", err)
		}
		s.data = data
	}
	loaded, err := s.load()
	if err != nil {
		return nil, err
	}
	s.current = loaded
	return s, nil
}

// Current returns the config as it is in force. It must not be changed.
func (s *Source) Current() *Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Failure says why what is there now is not in force; nil if it is.
func (s *Source) Failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

// Run follows the config until ctx ends, and calls report with Failure after each change of it; nil is nobody. It is called once, and
// its error is always nil.
func (s *Source) Run(ctx context.Context, report func(error)) error {
	if report == nil {
		report = func(error) {}
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	if s.object != nil {
		watching.Go(func() { s.watch(ctx, report) })
	}
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		s.reload(ctx, report)
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
		}
	}
}

// watch follows the object that holds the config.
func (s *Source) watch(ctx context.Context, report func(error)) {
	err := s.object.Watch(ctx, func(content []byte, gone error) {
		s.mu.Lock()
		if s.gone = gone; gone == nil {
			s.data = content
		}
		s.mu.Unlock()
		s.reload(ctx, report)
	})
	if err != nil && ctx.Err() == nil {
		s.mu.Lock()
		s.gone = fmt.Errorf("watching %s: %w; changes are not seen until this process is started anew", s.object, err)
		s.mu.Unlock()
		s.reload(ctx, report)
	}
}

// Reload reads the config at once and takes it if it is right and different. It returns Failure. Calls that were refused for their
// credentials are why somebody does not wait for Run.
func (s *Source) Reload(ctx context.Context) error {
	s.reload(ctx, func(error) {})
	return s.Failure()
}

func (s *Source) reload(ctx context.Context, report func(error)) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	before := s.Current()
	loaded, failure := s.load()
	if failure == nil {
		failure = before.validateChange(loaded)
	}
	changed := failure == nil && !before.equal(loaded)
	s.mu.Lock()
	same := !changed && sameText(failure, s.failure)
	s.failure = failure
	if changed {
		s.current = loaded
	}
	s.mu.Unlock()
	switch log := logr.FromContextOrDiscard(ctx); {
	case same:
		return
	case failure != nil:
		log.Error(failure, "The cloud config has changed and is not taken; the one before stays in force", "file", s.where())
	default:
		log.Info("The cloud config has changed", "file", s.where())
	}
	report(failure)
}

func (s *Source) where() string {
	if s.object != nil {
		return s.object.String()
	}
	return s.file
}

func sameText(a, b error) bool {
	if a == nil || b == nil {
		return (a == nil) == (b == nil)
	}
	return a.Error() == b.Error()
}

// load reads the config as it is now.
func (s *Source) load() (*Config, error) {
	s.mu.Lock()
	data, gone := s.data, s.gone
	s.mu.Unlock()
	if gone != nil {
		return nil, gone
	}
	if s.file != "" {
		read, err := os.ReadFile(s.file)
		if err != nil {
			return nil, fmt.Errorf("reading the cloud config: %w", err)
		}
		data = read
	}
	return Parse(data)
}

// equal reports whether two configs say the same, the content of files of certificates included.
func (c *Config) equal(other *Config) bool {
	a, b := *c, *other
	a.TLS, b.TLS = nil, nil
	return reflect.DeepEqual(a, b) && c.TLS.RootCAs.Equal(other.TLS.RootCAs) &&
		reflect.DeepEqual(c.TLS.Certificates, other.TLS.Certificates)
}

// validateChange returns what of a change a running process does not take: which parts of the provider there are, and what nodes have
// from it for as long as they live.
func (c *Config) validateChange(to *Config) error {
	var errs field.ErrorList
	fixed := func(differs bool, path ...string) {
		if differs {
			errs = append(errs, field.Forbidden(field.NewPath(path[0], path[1:]...), "cannot change while the process runs: start it anew"))
		}
	}
	fixed(c.Global.Region != to.Global.Region, "[Global]", "region")
	fixed(c.LoadBalancer.Enabled != to.LoadBalancer.Enabled, "[LoadBalancer]", "enabled")
	fixed(c.LoadBalancer.ManageSecurityGroups != to.LoadBalancer.ManageSecurityGroups, "[LoadBalancer]", "manage-security-groups")
	fixed((c.Route.RouterID == "") != (to.Route.RouterID == ""), "[Route]", "router-id")
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("change of the cloud config that a running process does not take: %w", errs.ToAggregate())
}
