package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

const (
	// atRandom is AT_RANDOM of getauxval(3), and atNull the end of the vector.
	atRandom = 25
	atNull   = 0
	// word is the size of a number in the vector, and randomBytes how many bytes AT_RANDOM has.
	word        = strconv.IntSize / 8
	randomBytes = 16
)

// start starts a process with the same random bytes each time. Go's runtime draws the order of maps and of select from the bytes that the kernel gives
// to a process, and so does math/rand. The thread of the caller has to be locked.
func start(command *exec.Cmd) error {
	command.SysProcAttr.Ptrace = true
	if err := command.Start(); err != nil {
		return err
	}
	pid := command.Process.Pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		return errors.Join(fmt.Errorf("wait for a new process: %w", err), command.Process.Kill())
	}
	err := repeatable(pid)
	return errors.Join(err, syscall.PtraceDetach(pid))
}

// repeatable replaces the random bytes of a process that has not run yet.
func repeatable(pid int) error {
	vector, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		return fmt.Errorf("random bytes of a new process: %w", err)
	}
	number := func(at int) uint64 {
		if word == 4 {
			return uint64(binary.NativeEndian.Uint32(vector[at:]))
		}
		return binary.NativeEndian.Uint64(vector[at:])
	}
	for at := 0; at+2*word <= len(vector) && number(at) != atNull; at += 2 * word {
		if number(at) == atRandom {
			_, err := syscall.PtracePokeData(pid, uintptr(number(at+word)), bytes.Repeat([]byte{42}, randomBytes))
			return err
		}
	}
	return nil // the runtime draws from other sources then
}
