package programtest

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
	"golang.org/x/sys/unix"

	"github.com/mooring-ccm/mooring/dev/poll"
)

// CtrlC is what a terminal sends for that key.
const CtrlC = "\x03"

// Terminal is a terminal that a program runs on.
type Terminal struct {
	program *Program
	// keyboard takes the typed input, and returns what the program writes.
	keyboard *os.File
	// screen is what a user sees.
	screen *vt.SafeEmulator
}

// OnTerminal starts the program on a terminal of that size.
func (p *Program) OnTerminal(columns, rows uint16) *Terminal {
	p.t.Helper()
	keyboard := p.onPseudoTerminal(columns, rows)
	x := &Terminal{program: p, keyboard: keyboard, screen: vt.NewSafeEmulator(int(columns), int(rows))}
	go func() { _, _ = io.Copy(keyboard, x.screen) }() // what a terminal answers when it is asked what it can do
	go func() {
		_, _ = io.Copy(io.MultiWriter(p, x.screen), keyboard) // ends with an error when the last process has closed the terminal
		if answers, ok := x.screen.InputPipe().(io.Closer); ok {
			_ = answers.Close()
		}
	}()
	return x
}

// Write types.
func (x *Terminal) Write(text string) {
	x.program.t.Helper()
	if _, err := io.WriteString(x.keyboard, text); err != nil {
		x.program.t.Fatal(err)
	}
}

// Await waits until the screen shows a text. The program may write it in pieces: it writes what has changed on the screen.
func (x *Terminal) Await(text string) {
	x.program.t.Helper()
	poll.Within(x.program.t, Patience, "the screen shows "+text, func(context.Context) error {
		shown := ansi.Strip(x.screen.Render())
		if strings.Contains(shown, text) {
			return nil
		}
		select {
		case <-x.program.done:
			x.program.t.Fatalf("it ended without having shown %q", text)
		default:
		}
		return fmt.Errorf("it shows\n%s", shown)
	})
}

// onPseudoTerminal starts the program on a pseudo terminal of that size and returns the other side of it.
func (p *Program) onPseudoTerminal(columns, rows uint16) *os.File {
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
	p.Command.Stdin, p.Command.Stdout, p.Command.Stderr = screen, screen, screen
	p.Command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p.Launch()
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
