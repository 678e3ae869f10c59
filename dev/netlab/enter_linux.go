package netlab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mooring-ccm/mooring/dev/program"
)

// insideVariable is set in the environment of a netlab's inside; it holds the number of the process outside.
const insideVariable = "MOORING_DEMO_LAB"

// Inside reports whether this process is the inside of a netlab, and which process started it.
func Inside() (outside int, inside bool) {
	outside, err := strconv.Atoi(os.Getenv(insideVariable))
	return outside, err == nil
}

// EndError says that the inside of a netlab did not end well.
type EndError struct {
	// ExitCode is the exit code of the process, -1 if a signal ended it.
	ExitCode int
	// Said is what it wrote to its standard error.
	Said string
	err  error
}

// Error says how it ended, and what it wrote.
func (e *EndError) Error() string { return fmt.Sprintf("%v: %s", e.err, e.Said) }

// Unwrap returns how it ended.
func (e *EndError) Unwrap() error { return e.err }

// Enter runs this program again, with these arguments, inside a netlab, and waits until it ends: an *EndError if it did not end with
// exit code 0. When ctx ends, the inside gets SIGTERM.
func Enter(ctx context.Context, args []string, out io.Writer) error {
	var said bytes.Buffer
	command, err := program.RunInNamespaces(ctx, args, func(command *exec.Cmd) {
		command.Args[0] = os.Args[0]
		command.Env = append(command.Env, fmt.Sprintf("%s=%d", insideVariable, os.Getpid()))
		command.Stdin, command.Stdout, command.Stderr = os.Stdin, out, &said
		command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	})
	exit := (*exec.ExitError)(nil)
	switch {
	case command.Process == nil:
		return fmt.Errorf("make the namespaces of the netlab: %w", err)
	case errors.As(err, &exit):
		return &EndError{ExitCode: exit.ExitCode(), Said: said.String(), err: err}
	case command.ProcessState != nil && command.ProcessState.Success():
		return nil // it has ended well, whether it was asked to or not
	default:
		return err
	}
}

// Furnish makes the inside of a netlab usable: processes and run-time files of its own, and loopback.
//
// From then on a second signal does not end this process, as it otherwise would: Ctrl-C reaches both the outside and the inside, and
// the outside passes it on besides.
func Furnish(ctx context.Context) error {
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"keep mounts to the netlab", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"mount its processes", func() error { return unix.Mount("proc", "/proc", "proc", 0, "") }},
		{"mount its run-time files", func() error { return mountEmpty("/run") }},
		// FRR writes there whatever its configuration says.
		{"hide the machine's temporary files", func() error { return mountEmpty("/var/tmp") }},
		{"set up loopback", func() error { return run(ctx, "ip", "link", "set", "lo", "up") }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

func mountEmpty(dir string) error { return unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755") }

// Do calls something on a thread in the host's network. Sockets that it opens belong to that network for good; goroutines that it
// starts do not.
func (h *Host) Do(something func() error) error {
	result := make(chan error, 1)
	go func() {
		// The thread is never unlocked: it ends with this goroutine, and nothing else ever runs on it.
		runtime.LockOSThread()
		result <- h.enterAndDo(something)
	}()
	return <-result
}

func (h *Host) enterAndDo(something func() error) error {
	namespace, err := os.Open(h.namespace())
	if err != nil {
		return fmt.Errorf("enter the network of %s: %w", h.Name, err)
	}
	defer func() { _ = namespace.Close() }()
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the network of %s: %w", h.Name, os.NewSyscallError("setns", err))
	}
	return something()
}
