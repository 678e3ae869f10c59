package program

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// RunInNamespaces runs this program again, with these arguments, in network, mount, process, host name and IPC namespaces of its own,
// and waits until it ends. Prepare sets the streams and the environment of the command, which begins with those of this process.
//
// It is the first process of its process namespace, so the kernel kills all others in it when it ends; and it is killed when this
// process dies. For that, the thread must stay.
func RunInNamespaces(ctx context.Context, args []string, prepare func(*exec.Cmd)) (*exec.Cmd, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command := exec.CommandContext(ctx, "/proc/self/exe", args...)
	command.Env = os.Environ()
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	DieWithParent(command.SysProcAttr)
	prepare(command)
	return command, command.Run()
}
