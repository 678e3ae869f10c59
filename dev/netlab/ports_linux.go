package netlab

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// share lets sockets to different destinations have one port.
func share(_, _ string, connection syscall.RawConn) (err error) {
	failed := connection.Control(func(descriptor uintptr) {
		err = unix.SetsockoptInt(int(descriptor), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	})
	if failed != nil {
		return failed
	}
	return err
}
