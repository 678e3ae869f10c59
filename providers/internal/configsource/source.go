// Package configsource follows the cloud config of a provider: the file or the object of the API server that holds it, and the files that
// it names. What is read, and what of a change a running process takes, is the provider's Format.
package configsource

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/go-logr/logr"

	"github.com/mooring-ccm/mooring/provider"
)

const (
	// pollInterval is how often files are read again whatever the file system notifies of: not every one does.
	pollInterval = 10 * time.Second
	// quietTime is how long a folder has to be quiet before it is read: several files are written one after the other.
	quietTime = 200 * time.Millisecond
)

// Source is a cloud config that follows its files. A change that does not load, or that may not be made to a running process, is
// not taken: what was there before stays. It is safe for concurrent use.
type Source[C any] struct {
	format Format[C]
	// newWatcher is fsnotify.NewWatcher, but in tests.
	newWatcher func() (*fsnotify.Watcher, error)
	// reloading is held during a reload, so subscribers are notified of changes in their order.
	reloading sync.Mutex

	mu      sync.Mutex
	origin  origin
	current *C
	// failure is why what is there now was not taken, and digest stands for what the files were when they were last read.
	failure     error
	digest      string
	looks       []look
	folders     []string
	subscribers []*subscriber[C]
	statistics  Statistics
	// object is the object of the API server that holds the config, nil if a file does.
	object provider.ConfigObject
	// report is called with Failure after each change of it. It may be nil.
	report func(error)
}

type subscriber[C any] struct{ changed func(*C) }

// Statistics are what became of changes.
type Statistics struct {
	// Applied and Refused are how often a config was loaded and taken, and how often what had changed was not. The first loading counts.
	Applied, Refused int
	// LoadedAt is when the config that is in force was loaded.
	LoadedAt time.Time
}

// Open loads the cloud config that a provider's factory is given. A reader with a name, as an *os.File has, is a file, and
// followed by Run, and so is an object of the API server; of another one only the files that it names are.
func Open[C any](format Format[C], from io.Reader) (*Source[C], error) {
	if from == nil {
		return nil, fmt.Errorf("provider %s: a cloud config is required: set --cloud-config", format.Provider)
	}
	if file, ok := from.(interface{ Name() string }); ok {
		return OpenFile(format, file.Name())
	}
	data, err := io.ReadAll(from)
	if err != nil {
		return nil, fmt.Errorf("reading the cloud config: %w", err)
	}
	placed := origin{data: data, dir: "."}
	if of, ok := from.(interface{ Dir() string }); ok { // it was made of a file, beside something else
		placed.dir = of.Dir()
	}
	source, err := open(format, placed)
	if object, ok := from.(provider.ConfigObject); ok && err == nil {
		source.object, source.origin.name = object, object.String()
	}
	return source, err
}

// OpenFile loads the cloud config at path, as Open does with a file.
func OpenFile[C any](format Format[C], path string) (*Source[C], error) {
	origin, err := fileOrigin(path)
	if err != nil {
		return nil, err
	}
	return open(format, origin)
}

func open[C any](format Format[C], from origin) (*Source[C], error) {
	loaded := load(format, from)
	if loaded.err != nil {
		return nil, loaded.err
	}
	return &Source[C]{
		format: format, origin: from, newWatcher: fsnotify.NewWatcher,
		current: loaded.config, digest: loaded.digest, looks: loaded.looks, folders: loaded.folders,
		statistics: Statistics{Applied: 1, LoadedAt: time.Now()},
	}, nil
}

// Current returns the config as it is in force. It must not be changed.
func (s *Source[C]) Current() *C {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Failure says why what is there now is not in force; nil if it is.
func (s *Source[C]) Failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

// Statistics returns what became of changes so far.
func (s *Source[C]) Statistics() Statistics {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.statistics
}

// Subscribe has a function called after each change of what Current returns, with the new config, one change at a time, until
// cancel is called. It holds up what follows, so it has to be quick. A change that was on its way when cancel was called may
// still be notified of.
func (s *Source[C]) Subscribe(changed func(*C)) (cancel func()) {
	added := &subscriber[C]{changed}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers = append(s.subscribers, added)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.subscribers = slices.DeleteFunc(slices.Clone(s.subscribers), func(other *subscriber[C]) bool { return other == added })
	}
}

// Reload reads the files at once and takes them if they are right and different. It returns Failure. It must not be called by a
// subscriber.
func (s *Source[C]) Reload(ctx context.Context) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	s.mu.Lock()
	read, looks, from, before := s.digest, s.looks, s.origin, s.current
	s.mu.Unlock()
	if digest(looks) == read {
		return s.Failure()
	}
	loaded := load(s.format, from)
	failure := loaded.err
	if failure == nil {
		if errs := s.format.ValidateChange(before, loaded.config); len(errs) > 0 {
			failure = fmt.Errorf("change of the cloud config that a running process does not take: %w", errs.ToAggregate())
		}
	}
	s.mu.Lock()
	s.digest, s.looks, s.folders = loaded.digest, loaded.looks, loaded.folders
	s.mu.Unlock()
	if failure != nil {
		s.refuse(ctx, failure)
		return failure
	}
	s.take(ctx, loaded.config)
	return nil
}

// take puts a config into force. The caller holds reloading.
func (s *Source[C]) take(ctx context.Context, config *C) {
	s.mu.Lock()
	s.current, s.failure = config, nil
	s.statistics.Applied++
	s.statistics.LoadedAt = time.Now()
	subscribers, report, where := s.subscribers, s.report, s.origin.where()
	s.mu.Unlock()
	logr.FromContextOrDiscard(ctx).Info("The cloud config has changed", "file", where)
	for _, subscriber := range subscribers {
		subscriber.changed(config)
	}
	if report != nil {
		report(nil)
	}
}

// refuse notes why what is there now is not taken. The caller holds reloading.
func (s *Source[C]) refuse(ctx context.Context, failure error) {
	s.mu.Lock()
	s.failure = failure
	s.statistics.Refused++
	report, where := s.report, s.origin.where()
	s.mu.Unlock()
	logr.FromContextOrDiscard(ctx).Error(failure, "Rejected the changed cloud config; the previous one stays in force", "file", where)
	if report != nil {
		report(failure)
	}
}
