package bgp

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// networkHeader is where a filter of the kernel finds the network header of what a socket receives (SKF_NET_OFF).
const networkHeader = 0xfff00000

// fromNeighbors lets pass what no router has forwarded: the TTL or hop limit is still 255 (RFC 5881 section 5).
var fromNeighbors = []bpf.Instruction{
	bpf.LoadAbsolute{Off: networkHeader, Size: 1},
	bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 4},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: 6, SkipTrue: 2},
	bpf.LoadAbsolute{Off: networkHeader + 8, Size: 1},
	bpf.Jump{Skip: 1},
	bpf.LoadAbsolute{Off: networkHeader + 7, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: 255, SkipTrue: 1},
	bpf.RetConstant{Val: 0},
	bpf.RetConstant{Val: 0xffff},
}

// dropDistant has the kernel drop what comes from other networks to a UDP port of this process. GoBGP sends BFD with a TTL of 255 and takes any,
// and its socket is reached by no other way than its number.
func dropDistant(port int) error {
	filter, err := bpf.Assemble(fromNeighbors)
	if err != nil {
		return fmt.Errorf("the filter for BFD: %w", err)
	}
	instructions := make([]unix.SockFilter, len(filter))
	for i, one := range filter {
		instructions[i] = unix.SockFilter{Code: one.Op, Jt: one.Jt, Jf: one.Jf, K: one.K}
	}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("the socket of BFD: %w", err)
	}
	var failed []error
	for _, file := range files {
		number, err := strconv.Atoi(file.Name())
		if err != nil {
			continue
		}
		// The number may be another file's at any time. The number of a copy stays ours.
		socket, err := unix.FcntlInt(uintptr(number), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			continue
		}
		if isUDP(socket, port) {
			program := unix.SockFprog{Len: uint16(len(instructions)), Filter: &instructions[0]}
			failed = append(failed, unix.SetsockoptSockFprog(socket, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program))
		}
		_ = unix.Close(socket)
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("drop BFD from other networks: %w", err)
	}
	return nil
}

// isUDP reports whether a file is a UDP socket of a port.
func isUDP(file, port int) bool {
	kind, err := unix.GetsockoptInt(file, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_DGRAM {
		return false
	}
	address, err := unix.Getsockname(file)
	if err != nil {
		return false
	}
	switch a := address.(type) {
	case *unix.SockaddrInet4:
		return a.Port == port
	case *unix.SockaddrInet6:
		return a.Port == port
	}
	return false
}
