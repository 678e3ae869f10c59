package witness

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mooring-ccm/mooring/dev/poll"
)

// TestAwaitEnd waits for a process that is stopped, goes on, and ends but is not waited for by its parent.
func TestAwaitEnd(t *testing.T) {
	command := exec.Command("sleep", "1000")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	pidfd, err := unix.PidfdOpen(command.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(pidfd) })
	ended := make(chan error, 1)
	go func() { ended <- awaitEnd(pidfd) }()
	signal := func(signal syscall.Signal, state string) {
		if err := command.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		poll.Until(t, "the process is "+state, func(context.Context) error { return poll.Holds(stateOf(t, command.Process.Pid) == state) })
	}
	signal(syscall.SIGSTOP, "T")
	signal(syscall.SIGCONT, "S")
	select {
	case err := <-ended:
		t.Fatalf("a process that lives has ended, with %v", err)
	default:
	}
	signal(syscall.SIGKILL, "Z")
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func stateOf(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))[0]
}

// TestAwaitNoProcess looks at files that are readable and no process: their readability says nothing of the end of one.
func TestAwaitNoProcess(t *testing.T) {
	file, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, fd := range map[string]int{"a file": int(file.Fd()), "nothing": 1 << 20} {
		if err := awaitEnd(fd); err == nil {
			t.Errorf("%s: the process has ended", name)
		}
	}
}

func TestRecord(t *testing.T) {
	r, err := newRecord()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.writes(); err == nil {
		t.Error("nothing was recorded, and it was read")
	}
	for _, count := range []int{0, 3, 1, 0} {
		if err := r.set(count); err != nil {
			t.Fatal(err)
		}
		if got, err := r.writes(); err != nil || got != uint64(count) {
			t.Errorf("read %d, %v, want %d", got, err, count)
		}
	}
	if err := r.file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.set(1); err == nil {
		t.Error("recorded in a file that is closed")
	}
}
