package config

import (
	"context"
	"errors"
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
	pollInterval = 30 * time.Second
	// settleTime is how long a folder has to be quiet before it is read: several files are written one after the other.
	settleTime = 200 * time.Millisecond
)

// Source is a cloud config that follows its files. A change that does not load, or that may not be made to a running process, is
// not taken: what was there before stays. It is safe for concurrent use.
type Source struct {
	origin origin
	// newWatcher is fsnotify.NewWatcher, but in tests.
	newWatcher func() (*fsnotify.Watcher, error)
	// reloading is held during a reload, so that subscribers are notified of changes in their order.
	reloading sync.Mutex

	mu      sync.Mutex
	current *CloudConfig
	// failure is why the files as they are now were not taken, and digest stands for what they were when they were last read.
	failure     error
	digest      string
	looks       []look
	folders     []string
	subscribers []*subscriber
	metrics     sourceMetrics
	// object is the object of the API server that holds the config, nil if a file does.
	object provider.ConfigObject
	// refused is called with each reason why what is there now is not taken; nil is nobody.
	refused func(error)
}

type subscriber struct{ changed func(*CloudConfig) }

// Open loads the cloud config that a provider's factory is given. A reader with a name, as an *os.File has, is a file, and
// followed by Run, and so is an object of the API server; of another one only the lists that it names are. The error is that of Load.
func Open(from io.Reader) (*Source, error) {
	if from == nil {
		return nil, errors.New("provider metal: a cloud config is required: set --cloud-config")
	}
	if file, ok := from.(interface{ Name() string }); ok {
		return OpenFile(file.Name())
	}
	data, err := io.ReadAll(from)
	if err != nil {
		return nil, fmt.Errorf("reading the cloud config: %w", err)
	}
	source, err := open(origin{data: data, dir: "."})
	if object, ok := from.(provider.ConfigObject); ok && err == nil {
		source.object, source.origin.name = object, object.String()
	}
	return source, err
}

// OpenFile loads the cloud config at path, as Open does with a file.
func OpenFile(path string) (*Source, error) {
	origin, err := fileOrigin(path)
	if err != nil {
		return nil, err
	}
	return open(origin)
}

func open(origin origin) (*Source, error) {
	loaded := origin.load()
	if loaded.err != nil {
		return nil, loaded.err
	}
	source := &Source{
		origin: origin, newWatcher: fsnotify.NewWatcher,
		current: loaded.config, digest: loaded.digest, looks: loaded.looks, folders: loaded.folders,
	}
	source.metrics.applied(time.Now())
	return source, nil
}

// Current returns the config as it is in force. It must not be changed.
func (s *Source) Current() *CloudConfig {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Failure says why the files as they are now are not in force; nil if they are.
func (s *Source) Failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

// OnRefusal has a function called with each reason why what is there now is not taken. It is called before Run, and once at most.
func (s *Source) OnRefusal(refused func(error)) { s.refused = refused }

// Subscribe has a function called after each change of what Current returns, with the new config, one change at a time, until
// cancel is called. It holds up what follows, so it has to be quick. A change that was on its way when cancel was called may
// still be notified of.
func (s *Source) Subscribe(changed func(*CloudConfig)) (cancel func()) {
	added := &subscriber{changed}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers = append(s.subscribers, added)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.subscribers = slices.DeleteFunc(slices.Clone(s.subscribers), func(other *subscriber) bool { return other == added })
	}
}

// Run follows the files until ctx ends. It looks at the folders that they are in, so that files which are replaced by others or
// by other symbolic links, as the kubelet does it with a ConfigMap or Secret, are followed too. Where folders cannot be watched,
// the files are read every 30 s. It is called once, and its error is always nil.
func (s *Source) Run(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx)
	watcher, err := s.newWatcher()
	if err != nil { // the kernel has few, for all processes of a user
		log.Error(err, "The folders of the cloud config cannot be watched; the files are read again and again", "interval", pollInterval)
		watcher = &fsnotify.Watcher{} // whose channels are nil: nothing ever comes
	} else {
		defer func() { _ = watcher.Close() }()
	}
	replaced, watching := make(chan struct{}, 1), sync.WaitGroup{}
	defer watching.Wait()
	watching.Go(func() { s.watchObject(ctx, replaced) })
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	settle := time.NewTimer(settleTime)
	defer settle.Stop()
	look := func() {
		_ = s.Reload(ctx) // says itself what is wrong
		if err == nil {
			s.watch(watcher)
		}
	}
	look()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-watcher.Events:
			settle.Reset(settleTime)
		case problem := <-watcher.Errors:
			log.Error(problem, "Watching the folders of the cloud config; they are read again in any case", "interval", pollInterval)
			settle.Reset(settleTime)
		case <-replaced:
			look()
		case <-poll.C:
			look()
		case <-settle.C: // also a while after the start: what changed before the folders were watched
			look()
		}
	}
}

// watchObject follows the object that holds the config, if one does, and has it read when it changes. One that is gone changes nothing
// but Failure.
func (s *Source) watchObject(ctx context.Context, replaced chan<- struct{}) {
	if s.object == nil {
		return
	}
	err := s.object.Watch(ctx, func(content []byte, gone error) {
		s.reloading.Lock()
		defer s.reloading.Unlock()
		if gone != nil {
			s.refuse(ctx, gone)
			return
		}
		s.mu.Lock()
		s.origin.data, s.digest = content, "" // whatever it was, it is read again
		s.mu.Unlock()
		select {
		case replaced <- struct{}{}:
		default:
		}
	})
	if err != nil && ctx.Err() == nil {
		s.reloading.Lock()
		defer s.reloading.Unlock()
		s.refuse(ctx, fmt.Errorf("watching %s: %w; changes are not seen until this process is started anew", s.object, err))
	}
}

// refuse notes why what is there now is not taken. The caller holds reloading.
func (s *Source) refuse(ctx context.Context, failure error) {
	s.mu.Lock()
	s.failure = failure
	s.mu.Unlock()
	s.metrics.failed()
	logr.FromContextOrDiscard(ctx).Error(failure, "The cloud config has changed and is not taken; the one before stays in force", "file", s.origin.where())
	if s.refused != nil {
		s.refused(failure)
	}
}

// watch looks at the folders of what was last read. Folders that were replaced by others of their name are watched anew; one that
// is not there is tried again later.
func (s *Source) watch(watcher *fsnotify.Watcher) {
	s.mu.Lock()
	folders := s.folders
	s.mu.Unlock()
	for _, watched := range watcher.WatchList() {
		if !slices.Contains(folders, watched) {
			_ = watcher.Remove(watched)
		}
	}
	for _, folder := range folders {
		_ = watcher.Add(folder)
	}
}

// Reload reads the files at once and takes them if they are right and different. It returns Failure. It must not be called by a
// subscriber.
func (s *Source) Reload(ctx context.Context) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	log := logr.FromContextOrDiscard(ctx)
	s.mu.Lock()
	read, looks, from := s.digest, s.looks, s.origin
	s.mu.Unlock()
	if digest(looks) == read {
		return s.Failure()
	}
	loaded := from.load()
	failure := loaded.err
	s.mu.Lock()
	s.digest, s.looks, s.folders = loaded.digest, loaded.looks, loaded.folders
	if failure == nil {
		if errs := validateChange(s.current, loaded.config); len(errs) > 0 {
			failure = fmt.Errorf("change of the cloud config that a running process does not take: %w", errs.ToAggregate())
		}
	}
	s.failure = failure
	subscribers := s.subscribers
	if failure == nil {
		s.current = loaded.config
	}
	s.mu.Unlock()
	if failure != nil {
		s.refuse(ctx, failure)
		return failure
	}
	s.metrics.applied(time.Now())
	log.Info("The cloud config has changed", "file", from.where(), "machines", len(loaded.config.Inventory.Machines))
	for _, subscriber := range subscribers {
		subscriber.changed(loaded.config)
	}
	return nil
}
