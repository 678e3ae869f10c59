package vcenter

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// startDeadline is how long the simulator may take until it listens.
const startDeadline = 30 * time.Second

// announced is what the simulator writes when it listens.
var announced = regexp.MustCompile(`export GOVC_URL=(\S+)`)

// startSimulator runs the simulator until the test ends and returns its endpoint, with the login.
func startSimulator(t testing.TB, program string) (*url.URL, error) {
	variables, log := filepath.Join(t.TempDir(), "variables"), filepath.Join(t.TempDir(), "vcsim.log")
	output, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }()
	if err := os.WriteFile(variables, nil, 0o600); err != nil {
		return nil, err
	}
	command := exec.Command(program, "-l", "127.0.0.1:0", "-E", variables, "-vm", "2", "-cluster", "2", "-host", "1",
		"-standalone-host", "0", "-username", User, "-password", Password)
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// The kernel takes the end of the thread that started a process for the parent's.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			ended <- command.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		_ = command.Process.Kill() // an error says that it is gone already
		<-ended
	})
	return awaitEndpoint(t.Context(), variables, log)
}

func awaitEndpoint(ctx context.Context, variables, log string) (*url.URL, error) {
	ctx, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	for {
		content, err := os.ReadFile(variables)
		if err != nil {
			return nil, err
		}
		if found := announced.FindSubmatch(content); found != nil {
			return url.Parse(string(found[1]))
		}
		select {
		case <-ctx.Done():
			said, err := os.ReadFile(log)
			return nil, errors.Join(fmt.Errorf("vcsim does not listen after %s; it said %q", startDeadline, said), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
