package environment

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/mooring-ccm/mooring/localcluster/program"
	"github.com/mooring-ccm/mooring/test/harness"
)

// Manager is a process of a cloud controller manager.
type Manager struct {
	program *program.Program
	// url is where it serves.
	url string

	// stopped says that the process may end.
	stopped bool

	// cpu and peak are what the process has used, as of the last reading while it ran; window is the peak since the last reset.
	cpu          float64
	peak, window int64
}

// read brings the figures of the process up to date. Those of one that has ended stay as they are: the kernel keeps its
// processor time only.
func (m *Manager) read() error {
	if state := m.program.State(); state != nil {
		m.cpu = (state.UserTime() + state.SystemTime()).Seconds()
		return nil
	}
	cpu, err := cpuSeconds(m.program.PID())
	if err != nil {
		return fmt.Errorf("processor time of %s: %w", m.program.Name(), err)
	}
	peak, err := peakBytes(m.program.PID())
	if err != nil {
		return fmt.Errorf("memory of %s: %w", m.program.Name(), err)
	}
	m.cpu, m.peak, m.window = cpu, max(m.peak, peak), max(m.window, peak)
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
