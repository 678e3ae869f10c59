package witness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

const (
	// mostStarts is how many witnesses a supervisor starts at the most, and restartPause is after the end of one until the next.
	mostStarts   = 5
	restartPause = 10 * time.Second
)

// errClosed is a supervisor that starts nothing any more.
var errClosed = errors.New("the witness is not needed any more")

// Supervisor starts the witness of this process and keeps one running while this process leads. Its methods do nothing on nil, which is a
// process without a witness.
type Supervisor struct {
	settings Settings
	process  *os.File
	record   record

	mu sync.Mutex
	// running is the witness, nil before the first.
	running *running
	// closed is why none is started any more, nil while it may be.
	closed error
}

// running is a child process.
type running struct {
	process *os.Process
	over    chan struct{} // closed when the child was waited for; how is set before
	how     string
}

// NewSupervisor returns the supervisor of a process whose settings lack only the leases. It has to be closed. An error says that the system does
// not offer what a witness needs.
func NewSupervisor(settings Settings) (*Supervisor, error) {
	process, err := ownProcess()
	if err != nil {
		return nil, err
	}
	record, err := newRecord()
	if err == nil {
		err = record.set(0)
	}
	if err != nil {
		return nil, errors.Join(err, process.Close())
	}
	return &Supervisor{settings: settings, process: process, record: record}, nil
}

// Add adds a lease that is to be released. It is to be called before Start.
func (s *Supervisor) Add(lease Lease) {
	if s != nil {
		s.settings.Leases = append(s.settings.Leases, lease)
	}
}

// Writes records how many writes the cloud has not answered. A count that cannot be recorded ends the witness: it would go by a wrong one.
func (s *Supervisor) Writes(underway int) {
	if s == nil {
		return
	}
	if err := s.record.set(underway); err != nil {
		s.end(err)
	}
}

// NeedLeaderElection makes controller-runtime's manager start the witness when this process leads.
func (s *Supervisor) NeedLeaderElection() bool { return true }

// Start starts the witness, and another one when that ends, until ctx ends. The witness goes on until Close: the lease is released after that.
// A missing witness is no error, because the lease expires all the same.
func (s *Supervisor) Start(ctx context.Context) error {
	if s == nil {
		return nil
	}
	logger := logr.FromContextOrDiscard(ctx)
	for range mostStarts {
		child, err := s.launch()
		if err != nil {
			logger.Error(err, "There is no witness: if this process is killed, the next leader waits until the lease has expired")
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-child.over:
		}
		logger.Info("The witness of this process has ended; another one is started soon", "reason", child.how, "interval", restartPause.String())
		pause := time.NewTimer(restartPause)
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil
		case <-pause.C:
		}
	}
	logger.Info("The witness of this process has ended too often: if this process is killed, the next leader waits until the lease has expired")
	return nil
}

// launch starts a witness.
func (s *Supervisor) launch() (*running, error) {
	settings, err := s.settings.encode()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed != nil {
		return nil, s.closed
	}
	command := exec.Command("/proc/self/exe") // this program, also when its file was replaced
	command.Args = []string{os.Args[0], "leader-election-witness"}
	command.Env = append(os.Environ(), settings, "GOMAXPROCS=1")
	command.Stderr = os.Stderr
	command.ExtraFiles = []*os.File{s.process, s.record.file}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the witness: %w", err)
	}
	child := &running{process: command.Process, over: make(chan struct{})}
	go func() {
		_ = command.Wait() // the state says it, too
		child.how = command.ProcessState.String()
		close(child.over)
	}()
	s.running = child
	return child, nil
}

// end ends the witness for good.
func (s *Supervisor) end(reason error) *running {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed == nil {
		s.closed = reason
	}
	if s.running != nil {
		_ = s.running.process.Kill() // an error says that it has ended
	}
	return s.running
}

// Close ends the witness, and returns when nothing is left of it. It is to be called when this process has released its leases, or has
// decided to have them expire.
func (s *Supervisor) Close() {
	if s == nil {
		return
	}
	if child := s.end(errClosed); child != nil {
		<-child.over
	}
	_ = s.process.Close() // nothing was written to them that could be lost
	_ = s.record.file.Close()
}
