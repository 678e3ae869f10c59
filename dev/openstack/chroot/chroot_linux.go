package chroot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/mooring-ccm/mooring/dev/program"
)

const (
	// own are the namespaces that a room has to itself. Its first process brings the PID namespace.
	own = unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
	// ready is what the first process of a room writes when programs may start.
	ready = "ready"
	// first is that process. It mounts /proc, which shows the processes in the mounter's namespace, and adopts orphaned processes. When it ends, the
	// kernel ends all others.
	first = "mount -t proc -o nosuid,nodev,noexec proc /proc && echo " + ready + " && while :; do sleep 3600 & wait $!; done"
)

// Room is a root directory with namespaces of its own.
type Room struct {
	options Options
	init    *program.Program
	process *os.File // refers to init, and so to the namespaces
}

// Open makes the namespaces and mounts of a room. The caller must call Close.
func Open(options Options) (*Room, error) {
	if err := options.validate(); err != nil {
		return nil, err
	}
	room := &Room{options: options}
	var err error
	room.init, err = program.Start(program.Options{
		Name: "init", Path: "/bin/sh", Args: []string{"-c", first}, Dir: options.Logs,
		Prepare: func(command *exec.Cmd) error {
			room.enterRoot(command, Command{})
			command.SysProcAttr.Cloneflags = unix.CLONE_NEWPID
			return room.furnish()
		},
	})
	if err != nil {
		return nil, fmt.Errorf("open the root directory %s: %w", options.Root, err)
	}
	descriptor, err := unix.PidfdOpen(room.init.PID(), 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("refer to the first process: %w", os.NewSyscallError("pidfd_open", err)), room.init.Kill())
	}
	room.process = os.NewFile(uintptr(descriptor), "first process")
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	err = program.Await(ctx, "the root directory is ready", []*program.Program{room.init}, func(context.Context) error {
		if !strings.HasSuffix(room.init.Tail(), ready) {
			return errors.New("its first process is not")
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, room.Close())
	}
	return room, nil
}

// furnish gives the calling thread, which ends with the first process, the namespaces of a room and what is in them.
func (r *Room) furnish() error {
	if err := unix.Unshare(unix.CLONE_FS | own); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	root := r.options.Root
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"keep mounts to the room", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"mount the root directory", func() error { return unix.Mount(root, root, "", unix.MS_BIND, "") }},
		{"mount the state", func() error {
			return unix.Mount(r.options.State, filepath.Join(root, StateDir), "", unix.MS_BIND, "")
		}},
		{"mount temporary files", func() error { return mountEmpty(filepath.Join(root, "tmp")) }},
		{"mount run-time files", func() error { return mountEmpty(filepath.Join(root, "run")) }},
		{"mount shared memory", func() error { return mountEmpty(filepath.Join(root, "dev/shm")) }},
		{"make the root directory read-only", func() error {
			return unix.Mount("", root, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
		}},
		{"name the host", func() error { return unix.Sethostname([]byte(r.options.Host)) }},
		{"set up loopback", setUpLoopback},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

func mountEmpty(dir string) error { return unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=1777") }

// setUpLoopback is for the network of the calling thread.
func setUpLoopback() error {
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(loopback)
}

// enterRoot has a command run in the root directory, with the environment of a room.
func (r *Room) enterRoot(command *exec.Cmd, wanted Command) {
	command.Dir, command.Env = "/", append(environment[:len(environment):len(environment)], wanted.Env...)
	command.SysProcAttr.Chroot = r.options.Root
}

// enter has the calling thread, which is never unlocked, start its next program in the room.
func (r *Room) enter(command *exec.Cmd, wanted Command) error {
	r.enterRoot(command, wanted)
	// The first process dies with this one, and the others with it. A process sees no parent that is outside of its namespace, so
	// the runtime would take this one for dead already.
	command.SysProcAttr.Pdeathsig = 0
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // a thread that shares these attributes cannot change its mounts
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Setns(int(r.process.Fd()), own|unix.CLONE_NEWPID); err != nil {
		return fmt.Errorf("enter the namespaces of the room: %w", os.NewSyscallError("setns", err))
	}
	return nil
}

// Start starts a program in a process group of its own, which lives until it ends, is stopped, or the room is closed. What it writes is
// added to NAME.log in Options.Logs.
func (r *Room) Start(wanted Command) (*program.Program, error) {
	return program.Start(program.Options{
		Name: wanted.Name, Path: wanted.Path, Args: wanted.Args, Dir: r.options.Logs, Append: true,
		Prepare: func(command *exec.Cmd) error { return r.enter(command, wanted) },
	})
}

// Run runs a program until it ends, and returns what it wrote to its standard output. An error quotes what it wrote to its standard error.
// When ctx ends, the program is killed.
func (r *Room) Run(ctx context.Context, wanted Command) (string, error) {
	var out, complaints bytes.Buffer
	command := exec.CommandContext(ctx, wanted.Path, wanted.Args...)
	command.Stdout, command.Stderr = &out, &complaints
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return unix.Kill(-command.Process.Pid, unix.SIGKILL) }
	var err error
	program.OnThread(func() {
		if err = r.enter(command, wanted); err == nil {
			err = command.Run()
		}
	})
	if err != nil {
		return out.String(), fmt.Errorf("run %s: %w: %s", wanted.Name, err, strings.TrimSpace(complaints.String()))
	}
	return out.String(), nil
}

// Dial opens a connection to an IP address in the room's network. It may be used on any thread.
func (r *Room) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var connection net.Conn
	var err error
	program.OnThread(func() {
		if err = unix.Setns(int(r.process.Fd()), unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("enter the network of the room: %w", os.NewSyscallError("setns", err))
			return
		}
		connection, err = (&net.Dialer{}).DialContext(ctx, network, address)
	})
	return connection, err
}

// SignalGroup signals a program of the room and the processes that it started. It returns no error if they have ended.
func (r *Room) SignalGroup(running *program.Program, signal syscall.Signal) error {
	if err := unix.Kill(-running.PID(), signal); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal the processes of %s: %w", running.Name(), os.NewSyscallError("kill", err))
	}
	return nil
}

// Close ends everything that runs in the room at once, and returns when it is gone with its mounts.
func (r *Room) Close() error {
	return errors.Join(r.init.Kill(), r.process.Close())
}

// PrivateMounts has a program that is about to start on the calling thread, as program.Options.Prepare, keep its mounts to itself: they are
// gone when it and its children are.
func PrivateMounts(*exec.Cmd) error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to the program: %w", err)
	}
	return nil
}
