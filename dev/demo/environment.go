package demo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/dev/demo/scenario"
	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/netlab"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

// environment is what the steps share: each uses what the ones before it started.
type environment struct {
	options Options
	report  func(scenario.Event)
	// current is the name of the step that is under way.
	current string

	// dir holds all files of the demo. logs holds the files that remain when a step fails.
	dir, logs string
	logFile   *os.File
	// life ends when the demo does, before anything is stopped, or with fail when something ends that must not.
	life context.Context
	fail context.CancelCauseFunc
	// background is what runs beside the steps until life ends.
	background sync.WaitGroup
	// undo are the things to stop, the last one first.
	undo []func(context.Context) error

	binaries   localcluster.Binaries
	daemon     string
	cluster    *harness.Cluster
	kubernetes kubernetes.Interface
	observed   *observer
	// kubeconfig is of the manager's ServiceAccount.
	kubeconfig string

	cloud       *cloudsim.Service
	client      *api.Client
	endpoint    string
	tokenFile   string
	cloudConfig string

	replicas map[string]*replica
	// leader is the name of the replica that was last made leader; empty since it stopped.
	leader string
	// place says where a replica of this name runs.
	place func(name string) (placement, error)
	// rack is what the machines without a cloud stand in; nil with the simulated cloud.
	rack *rack
	// ports are those of the clients.
	ports netlab.Ports
	// private is the OpenStack of the demo; nil with other providers.
	private *privateCloud
	// agents are the *nodeagent.Agent of each node, by its name. Nodes also join beside the steps.
	agents sync.Map
}

// newEnvironment makes the directories. Libraries that log without being asked to do so into a file, not into the picture.
func newEnvironment(ctx context.Context, options Options, report func(scenario.Event)) (*environment, error) {
	dir, err := os.MkdirTemp("", "mooring-demo-")
	if err != nil {
		return nil, fmt.Errorf("start the demo: %w", err)
	}
	s := &environment{options: options, report: report, dir: dir, logs: filepath.Join(dir, "logs"), replicas: map[string]*replica{}}
	s.place = s.placeBeside
	if err := os.Mkdir(s.logs, 0o700); err != nil {
		return nil, fmt.Errorf("start the demo: %w", errors.Join(err, os.RemoveAll(dir)))
	}
	if s.logFile, err = os.Create(filepath.Join(s.logs, "demo.log")); err != nil {
		return nil, fmt.Errorf("start the demo: %w", errors.Join(err, os.RemoveAll(dir)))
	}
	logger := logr.FromSlogHandler(slog.NewJSONHandler(s.logFile, nil))
	klog.SetLogger(logger)
	log.SetLogger(logger)
	s.life, s.fail = context.WithCancelCause(log.IntoContext(ctx, logger))
	return s, nil
}

// onEnd has something stopped when the demo ends.
func (s *environment) onEnd(stop func(context.Context) error) { s.undo = append(s.undo, stop) }

// beside runs something until the demo ends. When it ends before, with an error, the demo ends too.
func (s *environment) beside(what string, run func(context.Context) error) {
	s.background.Go(func() {
		if err := run(s.life); err != nil && s.life.Err() == nil {
			s.fail(fmt.Errorf("%s: %w", what, err))
		}
	})
}

// stop stops everything in the opposite order of its start.
func (s *environment) stop(ctx context.Context) error {
	s.fail(errors.New("the demo has ended"))
	var errs []error
	for _, stop := range slices.Backward(s.undo) {
		errs = append(errs, stop(ctx))
	}
	s.background.Wait()
	klog.ClearLogger()
	return errors.Join(append(errs, s.logFile.Close())...)
}

// path returns a path in the demo's directory.
func (s *environment) path(name ...string) string {
	return filepath.Join(append([]string{s.dir}, name...)...)
}

func (s *environment) removeFiles() error { return os.RemoveAll(s.dir) }

// keepLogs moves all logs to one place and removes everything else, keys and tokens first of all.
func (s *environment) keepLogs() error {
	err := filepath.WalkDir(s.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".log") || filepath.Dir(path) == s.logs {
			return nil
		}
		return os.Rename(path, filepath.Join(s.logs, filepath.Base(path)))
	})
	entries, readErr := os.ReadDir(s.dir)
	errs := []error{err, readErr}
	for _, entry := range entries {
		if path := s.path(entry.Name()); path != s.logs {
			errs = append(errs, os.RemoveAll(path))
		}
	}
	return errors.Join(errs...)
}
