package witness

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ownProcess returns a pidfd of this process, which never means another one.
func ownProcess() (*os.File, error) {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return nil, fmt.Errorf("refer to this process: %w", os.NewSyscallError("pidfd_open", err))
	}
	return os.NewFile(uintptr(fd), "process"), nil
}

// newRecord returns an empty record, in memory that has no name.
func newRecord() (record, error) {
	fd, err := unix.MemfdCreate("witness", unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("witness", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return record{}, fmt.Errorf("memory to share: %w", os.NewSyscallError("memfd_create", err))
	}
	return record{os.NewFile(uintptr(fd), "record")}, nil
}

// awaitEnd waits until the process of a pidfd has ended with all its threads. Linux makes a pidfd readable then, and not before
// (pidfd_open(2)). An error says that this is not certain.
func awaitEnd(pidfd int) error {
	if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("file %d refers to no process: %w", pidfd, os.NewSyscallError("pidfd_send_signal", err))
	}
	polled := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(polled, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return os.NewSyscallError("poll", err)
		case polled[0].Revents&unix.POLLIN == 0:
			return fmt.Errorf("poll of file %d returned the events %#x", pidfd, polled[0].Revents)
		}
		return nil
	}
}
