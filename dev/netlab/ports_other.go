//go:build !linux

package netlab

import "syscall"

// share fails.
func share(string, string, syscall.RawConn) error { return errNotLinux }
