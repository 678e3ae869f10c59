package chroot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// holdVariable has the test binary hold a room open until it is killed, and write the number of a process in it.
const holdVariable = "MOORING_TEST_HOLD_ROOM"

func TestMain(m *testing.M) {
	if encoded := os.Getenv(holdVariable); encoded != "" {
		if err := hold(strings.Split(encoded, ":")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func hold(dirs []string) error {
	room, err := Open(Options{Root: dirs[0], State: dirs[1], Logs: dirs[2], Host: "held"})
	if err != nil {
		return err
	}
	sleeper, err := room.Start(Command{Name: "parent", Path: "/bin/sh", Args: []string{"-c", "sleep 600 & wait"}})
	if err != nil {
		return err
	}
	fmt.Println(sleeper.PID())
	select {}
}

// makeRoot returns a root directory with a few programs of this machine, and the directories of a room.
func makeRoot(t *testing.T) Options {
	t.Helper()
	if os.Getuid() != 0 {
		sandbox.Without(t, "missing: root")
	}
	root := t.TempDir()
	for _, dir := range []string{"bin", "tmp", "run", "proc", "dev/shm", StateDir} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mknod(filepath.Join(root, "dev/null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		sandbox.Without(t, fmt.Sprintf("missing: the right to make devices: %v", err))
	}
	for _, program := range []string{"sh", "mount", "sleep", "cat", "hostname", "ls", "touch"} {
		copyProgram(t, root, program)
	}
	return Options{Root: root, State: t.TempDir(), Logs: t.TempDir(), Host: "another"}
}

// library is a path in what ldd writes.
var library = regexp.MustCompile(`/\S+`)

func copyProgram(t *testing.T, root, name string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		sandbox.Without(t, "missing: the program "+name)
	}
	libraries, err := exec.Command("ldd", path).Output()
	if err != nil {
		sandbox.Without(t, fmt.Sprintf("missing: ldd, or %s is not linked: %v", path, err))
	}
	copyFile(t, path, filepath.Join(root, "bin", name))
	for _, from := range library.FindAllString(string(libraries), -1) {
		copyFile(t, from, filepath.Join(root, from))
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, content, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, options Options) *Room {
	t.Helper()
	room, err := Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = room.Close() })
	return room
}

func run(t *testing.T, room *Room, script string) string {
	t.Helper()
	out, err := room.Run(t.Context(), Command{Name: "script", Path: "/bin/sh", Args: []string{"-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// mounts returns how many mounts this process sees.
func mounts(t *testing.T) int {
	t.Helper()
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(content, []byte("\n"))
}

func TestARoomIsApartFromThisMachine(t *testing.T) {
	options, before := makeRoot(t), mounts(t)
	room := open(t, options)
	if got := run(t, room, "hostname"); got != "another" {
		t.Errorf("the host name is %q", got)
	}
	if got := run(t, room, "echo written >"+StateDir+"/file; cat "+StateDir+"/file"); got != "written" {
		t.Errorf("in the state: %q", got)
	}
	if content, err := os.ReadFile(filepath.Join(options.State, "file")); err != nil || string(content) != "written\n" {
		t.Errorf("of the state, this machine sees %q, %v", content, err)
	}
	if got := run(t, room, "touch /file 2>/dev/null || echo refused; touch /tmp/file && ls /tmp"); got != "refused\nfile" {
		t.Errorf("writing to the root directory and to /tmp: %q", got)
	}
	if numbers := strings.Fields(run(t, room, "ls /proc")); len(numbers) == 0 || !strings.Contains(strings.Join(numbers, " "), "self") {
		t.Errorf("/proc has %q", numbers)
	}
	if got := run(t, room, "echo $HOME $PATH$LANG"); !strings.HasPrefix(got, StateDir+" /usr/local") || strings.HasSuffix(got, "UTF-8") {
		t.Errorf("the environment of this process is passed on: %q", got)
	}
	if got := mounts(t); got != before {
		t.Errorf("this machine sees %d mounts, before %d", got, before)
	}
	if host, _ := os.Hostname(); host == "another" {
		t.Error("this machine has another name now")
	}
}

func TestAProgramIsStartedAndReached(t *testing.T) {
	room := open(t, makeRoot(t))
	parent, err := room.Start(Command{Name: "parent", Path: "/bin/sh", Args: []string{"-c", "echo started; sleep 600 & wait"}})
	if err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the program runs", func(context.Context) error { return poll.Holds(parent.Tail() == "started") })
	if got := run(t, room, "echo /proc/[0-9]*"); strings.Count(got, "/proc/") < 3 {
		t.Errorf("processes in the room: %q, want those of the program among them", got)
	}
	// No server listens on that port. A refused connection alone would also fit the machine's own network, so this looks for its routes.
	if got := run(t, room, "cat /proc/net/route"); strings.Count(got, "\n") != 0 {
		t.Errorf("the network has routes: %q", got)
	}
	if _, err := room.Dial(t.Context(), "tcp", "127.0.0.1:1"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial a port without a listener: %v, want a refusal by its loopback", err)
	}
	if _, err := room.Dial(t.Context(), "tcp", "192.0.2.1:1"); !errors.Is(err, syscall.ENETUNREACH) {
		t.Errorf("dial elsewhere: %v, want that it has no network", err)
	}
	if err := room.SignalGroup(parent, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the program has ended", func(context.Context) error { return poll.Holds(parent.State() != nil) })
	if err := room.SignalGroup(parent, syscall.SIGTERM); err != nil {
		t.Errorf("a signal to what is gone: %v", err)
	}
}

func TestAFailureIsQuoted(t *testing.T) {
	room := open(t, makeRoot(t))
	_, err := room.Run(t.Context(), Command{Name: "complainer", Path: "/bin/sh", Args: []string{"-c", "echo no luck >&2; exit 3"}})
	if err == nil || !strings.Contains(err.Error(), "complainer") || !strings.Contains(err.Error(), "no luck") {
		t.Errorf("got %v", err)
	}
	if _, err := room.Start(Command{Name: "absent", Path: "/bin/absent"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that is not there: %v", err)
	}
	if _, err := Open(Options{Root: "relative"}); err == nil || !strings.Contains(err.Error(), "Host") || !strings.Contains(err.Error(), "Root") {
		t.Errorf("bad options: %v, want all of them named", err)
	}
}

// gone reports whether there is no process of a number, nor a group.
func gone(pid int) error {
	if err := syscall.Kill(-pid, 0); !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("the processes of group %d are there: %v", pid, err)
	}
	return nil
}

func TestCloseLeavesNothing(t *testing.T) {
	room := open(t, makeRoot(t))
	parent, err := room.Start(Command{Name: "parent", Path: "/bin/sh", Args: []string{"-c", "trap '' TERM; sleep 600 & wait"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := room.Close(); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the program and what it started are gone", func(context.Context) error { return gone(parent.PID()) })
}

func TestNothingOutlivesThisProcess(t *testing.T) {
	options := makeRoot(t)
	holder := exec.Command("/proc/self/exe")
	holder.Env = append(os.Environ(), holdVariable+"="+strings.Join([]string{options.Root, options.State, options.Logs}, ":"))
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	holder.Stderr = t.Output()
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 20)
	read, err := io.ReadAtLeast(out, line, 2)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(line[:read])))
	if err != nil {
		t.Fatal(err)
	}
	if gone(pid) == nil {
		t.Fatal("the program in the room does not run")
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait() // a killed process
	poll.Until(t, "the program and what it started are gone", func(context.Context) error { return gone(pid) })
}
