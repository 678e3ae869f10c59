// Package filelock has one process at a time do what several may want at once: build a control plane, install a cloud's packages.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

// retry is how often a lock that another process holds is tried again.
const retry = 200 * time.Millisecond

// Take takes an exclusive lock that the kernel releases when its holder dies. While it waits, the display shows what for. The returned
// function releases it. It returns an error when ctx ends first, or when the file cannot be made.
func Take(ctx context.Context, path string, display *progress.Display, waitingFor string) (func(), error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	unlock := func() { file.Close() }
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return unlock, nil
	}
	step := display.Begin("waiting for " + waitingFor)
	waited := wait.PollUntilContextCancel(ctx, retry, true, func(context.Context) (bool, error) {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		return !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR), nil
	})
	switch {
	case waited != nil:
		err = fmt.Errorf("wait for the lock %s: %w", path, context.Cause(ctx))
	case err != nil:
		err = fmt.Errorf("lock %s: %w", path, err)
	}
	if err != nil {
		step.Fail()
		file.Close()
		return nil, err
	}
	step.Done("it has ended")
	return unlock, nil
}
