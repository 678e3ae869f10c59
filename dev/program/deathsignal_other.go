//go:build !linux

package program

import "syscall"

// DieWithParent does nothing: only Linux can tie a child's life to its parent's.
func DieWithParent(*syscall.SysProcAttr) {}
