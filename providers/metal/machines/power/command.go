package power

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// maxOutput is how much of what a command prints is kept.
const maxOutput = 4 << 10

// command asks by running a program.
type command struct {
	config config.Command
	env    []string
}

func newCommand(c config.Command, machine *config.Machine) *command {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "MACHINE_NAME=" + machine.Name, "MACHINE_ID=" + machine.ID,
		"MACHINE_PROVIDER_ID=" + machine.ProviderID(), "MACHINE_SYSTEM_UUID=" + machine.SystemUUID,
	}
	for _, address := range machine.Addresses {
		if address.Type == v1.NodeInternalIP {
			env = append(env, "MACHINE_ADDRESS="+address.Address)
			break
		}
	}
	return &command{config: c, env: env}
}

// Read runs the program.
func (c *command) Read(ctx context.Context) (Reading, error) {
	said, err := c.run(ctx, c.config.Argv)
	if err != nil {
		return Reading{}, err
	}
	return parseOutput(c.config.Argv[0], said)
}

// parseOutput returns what a program has said.
func parseOutput(program, said string) (Reading, error) {
	words := strings.Fields(said)
	states := map[string]State{"on": On, "off": Off, "unknown": Unknown}
	switch state, known := states[strings.Join(words[:min(len(words), 1)], "")]; {
	case known && len(words) == 1:
		return Reading{State: state}, nil
	case known && len(words) == 2 && isUUID(words[1]):
		return Reading{State: state, System: newSystemUUID(words[1])}, nil
	default:
		return Reading{}, fmt.Errorf("running %s: it printed %.60q, want on, off or unknown, and behind it the system UUID if it is known",
			program, said)
	}
}

// isUUID reports whether a word is a UUID, be it one that says nothing.
func isUUID(word string) bool {
	_, ok := config.CanonicalUUID(word)
	return ok
}

// run runs a program and returns what it prints, without the white space around it. Whatever it started is killed when it ends or
// its time is over.
func (c *command) run(ctx context.Context, argv []string) (string, error) {
	if c.config.Timeout.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.config.Timeout.Duration)
		defer cancel()
	}
	var output, complaint limited
	run := exec.CommandContext(ctx, argv[0], argv[1:]...)
	run.Env, run.Stdout, run.Stderr = c.env, &output, &complaint
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	run.Cancel = func() error { return killGroup(run.Process.Pid) }
	run.WaitDelay = time.Second // a process that left the group may hold the pipes
	if err := run.Start(); err != nil {
		return "", fmt.Errorf("running %s: %w", argv[0], err)
	}
	awaitExit(run.Process.Pid)
	_ = killGroup(run.Process.Pid)
	err := run.Wait()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("running %s: killed: %w", argv[0], context.Cause(ctx))
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "", fmt.Errorf("running %s: %w%s", argv[0], err, complaint.lastLine())
	}
	return strings.TrimSpace(output.String()), nil
}

// change runs the program that does it, unless the one that reads the state says another UUID by now.
func (c *command) change(ctx context.Context, what change, systemUUID string) error {
	argv := map[change][]string{byForce: c.config.PowerOff, softly: c.config.ShutDown, turningOn: c.config.PowerOn}[what]
	if len(argv) == 0 {
		field := map[change]string{byForce: "powerOff", softly: "shutDown", turningOn: "powerOn"}[what]
		return fmt.Errorf("bmc.command.%s is not set: %w", field, what.impossible())
	}
	reading, err := c.Read(ctx)
	switch {
	case err != nil:
		return err
	case !reading.System.Is(systemUUID):
		return ErrUnverified
	}
	_, err = c.run(ctx, argv)
	return err
}

// Close does nothing: nothing is kept between runs.
func (c *command) Close(context.Context) error { return nil }

// awaitExit waits until a child has ended, without reaping it: no other process gets its ID before it is reaped.
func awaitExit(pid int) {
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}

// killGroup kills a child, which has not been waited for, and what it started.
func killGroup(pid int) error {
	err := unix.Kill(-pid, unix.SIGKILL)
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// limited keeps the beginning of what is written to it.
type limited struct{ bytes.Buffer }

func (l *limited) Write(data []byte) (int, error) {
	if room := maxOutput - l.Len(); room > 0 {
		l.Buffer.Write(data[:min(room, len(data))])
	}
	return len(data), nil
}

// lastLine returns the last line for an error message, or nothing.
func (l *limited) lastLine() string {
	lines := strings.Split(strings.TrimSpace(l.String()), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return fmt.Sprintf(": %.200q", last)
	}
	return ""
}
