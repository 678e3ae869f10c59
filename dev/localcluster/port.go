package localcluster

import (
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// port is a TCP port that belongs to this process from its choice to its release: a socket is bound to it and never
// listens. kube-apiserver binds to the same port with SO_REUSEPORT (--permit-port-sharing), which the kernel allows to
// processes of one user only. So no other program can take the port between its choice and the server's start, nor while
// the server is stopped, when connections are refused.
type port struct {
	socket *os.File
	addr   netip.AddrPort
}

// reservePort reserves a free port of an address.
func reservePort(addr netip.Addr) (*port, error) {
	bound, err := bindAnyPort(addr)
	if err != nil {
		return nil, fmt.Errorf("reserve a port of %s: %w", addr, err)
	}
	return bound, nil
}

func bindAnyPort(addr netip.Addr) (*port, error) {
	family, sockaddr := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Addr: addr.As16()})
	if addr.Is4() {
		family, sockaddr = unix.AF_INET, &unix.SockaddrInet4{Addr: addr.As4()}
	}
	syscall.ForkLock.RLock() // macOS cannot open a socket that children do not inherit
	descriptor, err := unix.Socket(family, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(descriptor)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	socket := os.NewFile(uintptr(descriptor), "reserved port")
	if err := unix.SetsockoptInt(descriptor, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		socket.Close()
		return nil, os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Bind(descriptor, sockaddr); err != nil {
		socket.Close()
		return nil, os.NewSyscallError("bind", err)
	}
	local, err := unix.Getsockname(descriptor)
	if err != nil {
		socket.Close()
		return nil, os.NewSyscallError("getsockname", err)
	}
	return &port{socket: socket, addr: netip.AddrPortFrom(addr, portOf(local))}, nil
}

func portOf(address unix.Sockaddr) uint16 {
	switch address := address.(type) {
	case *unix.SockaddrInet4:
		return uint16(address.Port)
	case *unix.SockaddrInet6:
		return uint16(address.Port)
	default:
		return 0
	}
}

// release gives the port back.
func (p *port) release() error {
	if p == nil {
		return nil
	}
	return p.socket.Close()
}
