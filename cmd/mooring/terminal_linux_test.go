package main

import (
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// onTerminal starts the program on a pseudo terminal of that size and returns the side where somebody types.
func (p *program) onTerminal(columns, rows uint16) io.Writer {
	p.t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = keyboard.Close() })
	var number int
	err = control(keyboard, func(descriptor int) (err error) {
		if err = unix.IoctlSetPointerInt(descriptor, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		if err = unix.IoctlSetWinsize(descriptor, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
			return err
		}
		number, err = unix.IoctlGetInt(descriptor, unix.TIOCGPTN)
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	screen, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = screen.Close() }()
	p.command.Stdin, p.command.Stdout, p.command.Stderr = screen, screen, screen
	p.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p.launch()
	go func() { _, _ = io.Copy(p, keyboard) }() // ends with an error when the last process has closed the terminal
	return keyboard
}

// control calls a function with the descriptor of a file, and leaves the file as the runtime wants it.
func control(file *os.File, call func(descriptor int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var called error
	if err := raw.Control(func(descriptor uintptr) { called = call(int(descriptor)) }); err != nil {
		return err
	}
	return called
}
