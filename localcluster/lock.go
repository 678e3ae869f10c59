package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-ccm/mooring/localcluster/progress"
)

// lockRetry is how often a lock that another process holds is tried again.
const lockRetry = 200 * time.Millisecond

// lockFile takes an exclusive lock that the kernel releases when its holder dies, and says so while it waits. The
// returned function releases it.
func lockFile(ctx context.Context, path string, display *progress.Display) (func(), error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	unlock := func() { file.Close() }
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return unlock, nil
	}
	step := display.Begin("waiting for another build of the control plane")
	for errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		select {
		case <-ctx.Done():
			step.Fail()
			file.Close()
			return nil, fmt.Errorf("wait for the lock %s: %w", path, context.Cause(ctx))
		case <-time.After(lockRetry):
			err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		}
	}
	if err != nil {
		step.Fail()
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	step.Done("it has ended")
	return unlock, nil
}
