package environment

import (
	"context"
	"errors"
	"syscall"
)

// StopLeader sends a signal to the process that leads, which may then end. It returns the identity that held the lease.
func (e *Environment) StopLeader(signal syscall.Signal) (identity string, err error) {
	for _, m := range e.managers {
		// The first one that runs leads: each process was started while the one before it led.
		if !m.stopped {
			m.stopped = true
			return e.watch.leader(), m.signal(signal)
		}
	}
	return "", errors.New("stop the leader: no process of the manager runs")
}

// AwaitNextLeader waits until a replica other than before holds the lease.
func (e *Environment) AwaitNextLeader(ctx context.Context, before string) error {
	return e.await(ctx, 1, func() int {
		if leader := e.watch.leader(); leader != "" && leader != before {
			return 1
		}
		return 0
	})
}
