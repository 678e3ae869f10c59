package program

import "syscall"

// DieWithParent makes the kernel kill a child when the thread that starts it ends, and so when this process dies, however it dies.
func DieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
