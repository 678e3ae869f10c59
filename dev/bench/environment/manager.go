package environment

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/program"
)

// Manager is a process of a cloud controller manager.
type Manager struct {
	program *program.Program
	// pod is where it seems to run.
	pod harness.Pod
	// endpoint is where it serves, for the administrator.
	endpoint harness.Endpoint

	// stopped says that the process may end.
	stopped bool

	// cpu is the processor time of the process until the last reading while it ran; peak is its largest memory since the last reset, and
	// resident what it had at that reading.
	cpu            float64
	peak, resident int64
}

// read brings the figures of the process up to date. Those of one that has ended stay as they are: the kernel keeps its
// processor time only.
func (m *Manager) read() error {
	if state := m.program.State(); state != nil {
		m.cpu, m.resident = (state.UserTime() + state.SystemTime()).Seconds(), 0
		return nil
	}
	cpu, err := CPUSeconds(m.program.PID())
	if err != nil {
		return fmt.Errorf("processor time of %s: %w", m.program.Name(), err)
	}
	used, err := memoryOf(m.program.PID())
	if err != nil {
		return fmt.Errorf("memory of %s: %w", m.program.Name(), err)
	}
	m.cpu, m.peak, m.resident = cpu, max(m.peak, used.peak), used.resident
	return nil
}

// signal sends a signal to the process, after a last look at its memory. One that has ended needs none, also if that has not
// been noticed yet.
func (m *Manager) signal(signal syscall.Signal) error {
	// Of one that ends at this moment there is nothing to read.
	_ = m.read()
	return m.program.Signal(signal)
}

// stop ends the process, with force if it has to.
func (m *Manager) stop(ctx context.Context) error {
	m.stopped = true
	// Of one that ends at this moment there is nothing to read.
	_ = m.read()
	err := m.program.Stop(ctx, harness.StopGrace)
	return errors.Join(err, m.read())
}
