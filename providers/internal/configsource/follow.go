package configsource

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/go-logr/logr"
)

// Run follows the files until ctx ends. It calls report with nil after each config that is taken, when subscribers have been notified, and
// with Failure after each that is not. Report may be nil.
//
// It looks at the folders that the files are in, so files which are replaced by others or by other symbolic links, as the kubelet does
// it with a ConfigMap or Secret, are followed too. Where folders cannot be watched, the files are read every 10 s. It is called once, and
// its error is always nil.
func (s *Source[C]) Run(ctx context.Context, report func(error)) error {
	log := logr.FromContextOrDiscard(ctx)
	s.mu.Lock()
	s.report = report
	s.mu.Unlock()
	watcher, err := s.newWatcher()
	if err != nil { // the kernel has few, for all processes of a user
		log.Error(err, "Could not watch the folders of the cloud config; polling the files", "interval", pollInterval)
		watcher = &fsnotify.Watcher{} // whose channels are nil: nothing ever comes
	} else {
		defer func() { _ = watcher.Close() }()
	}
	replaced, watching := make(chan struct{}, 1), sync.WaitGroup{}
	defer watching.Wait()
	watching.Go(func() { s.watchObject(ctx, replaced) })
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	quiet := time.NewTimer(quietTime)
	defer quiet.Stop()
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
			quiet.Reset(quietTime)
		case problem := <-watcher.Errors:
			log.Error(problem, "Watching the folders of the cloud config, and polling them", "interval", pollInterval)
			quiet.Reset(quietTime)
		case <-replaced:
			look()
		case <-poll.C:
			look()
		case <-quiet.C: // also a while after the start: what changed before the folders were watched
			look()
		}
	}
}

// watchObject follows the object that holds the config, if one does, and has it read when it changes. One that is gone changes nothing
// but Failure.
func (s *Source[C]) watchObject(ctx context.Context, replaced chan<- struct{}) {
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

// watch looks at the folders of what was last read. Folders that were replaced by others of their name are watched anew; one that
// is not there is tried again later.
func (s *Source[C]) watch(watcher *fsnotify.Watcher) {
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
