package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mooring-ccm/mooring/dev/programtest"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
)

// Each demo has a control plane, a cloud and files of its own, and waits most of the time: they run side by side.

// All of the demo on a pipe, as in a log of continuous integration.
func TestDemo(t *testing.T) {
	t.Parallel()
	p := programtest.Start(t, "--daemon", programtest.Daemon(t))
	if code := p.Exit(); code != cli.ExitOK {
		t.Fatalf("exit code %d", code)
	}
	text := p.Text()
	for n := 1; n <= 13; n++ {
		// The last one is created when the cloud has numbered other things too.
		id := map[bool]string{true: fmt.Sprintf("%08d", n), false: `\d{8}`}[n <= 12]
		way := fmt.Sprintf(`(?s)node-%03d  tainted\n.*node-%03d  ready +after \d+\.\d+ s  sim://i-%s  sim-1[abc]  sim\.\w+  10\.0\.0\.%d  100\.64\.0\.%d`,
			n, n, id, n+1, n+1)
		if !regexp.MustCompile(way).MatchString(text) {
			t.Errorf("the way of node-%03d is not shown", n)
		}
	}
	if ways := regexp.MustCompile(`node-0(?:1[0-2])  (?:unready|shut down|held|deleted|ready\n)`).FindAllString(text, -1); !inOrder(ways,
		"node-012  unready", "node-012  shut down", "node-012  ready\n") || !inOrder(ways, "node-011  unready", "node-011  deleted") ||
		!inOrder(ways, "node-010  unready", "node-010  held", "node-010  ready\n") {
		t.Errorf("what becomes of nodes is shown as %q", ways)
	}
	_, summary, found := strings.Cut(text, "\nSummary\n")
	if !found {
		t.Fatal("there is no summary")
	}
	summary = strings.Join(strings.Fields(summary), " ") // where lines are wrapped depends on what was measured
	for _, want := range []string{
		`ok 12 nodes register with the taint, as kubelets do \d`,
		`ok every node has what the cloud says of its instance, and no taint \d`,
		`12 routes, for example to 10\.244\.\d+\.0/24 by way of node-001`,
		`to 10\.244\.\d+\.0/24 by way of node-001, after \d+\.\d+ s; the replicas compare the routes every 2s`,
		`\d+\.\d+\.\d+\.\d+, port 80, is there after \d+\.\d+ s, with 12 nodes behind it`,
		`the Service says NotFound after \d+\.\d+ s; the replicas compare load balancers every 2s; \d+\.\d+\.\d+\.\d+ is there \d+\.\d+ s after a change`,
		`both are gone after \d+\.\d+ s`,
		`sim\.small became sim\.large after \d+\.\d+ s`,
		`node-010, node-011, node-012, after \d+\.\d+ s; the control plane waits for 5s`,
		`after \d+\.\d+ s; the replicas look at nodes every 1s`,
		`node-012 is ready after \d+\.\d+ s`,
		`node-011 is deleted after \d+\.\d+ s, when the cloud has denied its instance twice`,
		`11 nodes are there; the condition CloudInstanceGone of node-010 says EveryInstanceGone`,
		`the condition is gone after \d+\.\d+ s; 11 nodes are there`,
		`\d+\.\d+ s after SIGTERM, ccm-b leads`,
		`\d+\.\d+ s after SIGTERM, node-013 is initialized`,
		`\d+\.\d+ s after SIGTERM, to 10\.244\.\d+\.0/24 by way of node-013`,
		`ccm-a, exit code 0`,
		`All 27 steps happened, in `, `Next make demo ARGS=--keep `, ` make demo ARGS=--provider=metal `, ` make demo ARGS=--provider=openstack `, ` bin/mooring check `,
		`so far the cloud was asked for (1 list|\d+ lists) of all instances and (1 time|\d+ times) for a single one`,
	} {
		if !regexp.MustCompile(want).MatchString(summary) {
			t.Errorf("the summary does not say %q", want)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Error("there are escape sequences on a pipe")
	}
	p.LeavesNoProcess()
	p.LeavesNoFile()
}

// inOrder reports whether lines hold others in their order.
func inOrder(lines []string, others ...string) bool {
	for _, line := range lines {
		if len(others) > 0 && line == others[0] {
			others = others[1:]
		}
	}
	return len(others) == 0
}

// A step that does not happen is named, the exit code is 1, and the logs are kept.
func TestDemoFails(t *testing.T) {
	t.Parallel()
	p := programtest.Start(t, "--daemon", programtest.Daemon(t), "--cloud-fault", "operation=UpdateInstance,mode=status,status=500")
	if code := p.Exit(); code != cli.ExitFailed {
		t.Errorf("exit code %d, want %d", code, cli.ExitFailed)
	}
	text := p.Text()
	for _, want := range []string{
		`\n +\S+ s  FAIL node-001 gets another machine type`, `  FAIL node-001 gets another machine type`, `  ok   every node is ready`,
		`  --   the old leader has ended in order +not reached`, `15 of 27 steps happened, 1 failed, 11 not reached\.`,
		`demo: resize/label: UpdateInstance: 500 `, `logs are in \S+`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("the output does not say %q", want)
		}
	}
	p.LeavesNoProcess()
	logs := regexp.MustCompile(`logs are in (\S+)`).FindStringSubmatch(text)
	if logs == nil {
		t.FailNow()
	}
	for _, name := range []string{"ccm-a.log", "ccm-b.log", "cloud.log", "kube-apiserver.log"} {
		if info, err := os.Stat(filepath.Join(logs[1], name)); err != nil || info.Size() == 0 {
			t.Errorf("log %s: %v", name, err)
		}
	}
	kept, err := filepath.Glob(filepath.Join(p.Temp, "*", "*"))
	if err != nil || len(kept) != 1 {
		t.Errorf("kept besides the logs: %v, %v", kept, err)
	}
}

// A daemon that does not start is found at once, with the reason.
func TestDemoWithADaemonThatFails(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "daemon")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho no such luck >&2\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := programtest.Start(t, "--daemon", broken)
	if code := p.Exit(); code != cli.ExitFailed {
		t.Errorf("exit code %d, want %d", code, cli.ExitFailed)
	}
	p.Await("ended by itself (exit status 3): no such luck")
	p.LeavesNoProcess()
}

// interruption is an end of the demo that comes from outside.
type interruption struct {
	when   string
	signal syscall.Signal
	code   int
}

// interrupt ends demos, each in one way. However a demo is ended, no process is left; and if it can still do anything, no file.
func interrupt(t *testing.T, interruptions map[string]interruption, args ...string) {
	t.Helper()
	for name, c := range interruptions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := programtest.Start(t, append(slices.Clone(args), "--daemon", programtest.Daemon(t))...)
			p.Await(c.when)
			p.Signal(c.signal)
			if code := p.Exit(); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			p.LeavesNoProcess()
			if c.signal != syscall.SIGKILL {
				p.LeavesNoFile()
			}
		})
	}
}

func TestDemoInterrupted(t *testing.T) {
	interrupt(t, map[string]interruption{
		"while the control plane starts": {"run on loopback", syscall.SIGINT, cli.ExitInterrupted},
		"while nodes join":               {"node-003  tainted", syscall.SIGTERM, cli.ExitInterrupted},
		"killed":                         {"node-002  tainted", syscall.SIGKILL, -1},
	})
}

// On a terminal the demo paints, takes Ctrl-C as a key, gives the terminal back, and with --keep waits.
func TestDemoOnATerminal(t *testing.T) {
	t.Parallel()
	p := programtest.Prepare(t, "--keep", "--daemon", programtest.Daemon(t))
	p.Command.Env = append(p.Command.Env, "NO_COLOR=1", "TERM=xterm-256color")
	terminal := p.OnTerminal(100, 30)
	p.Await("\x1b[?1049h") // the alternate screen
	p.Await("export KUBECONFIG=")
	p.Await("# ccm-b, which leads")
	if !strings.Contains(p.Text(), "\x1b[?1049l") {
		t.Error("the terminal was not given back")
	}
	if colors := regexp.MustCompile(`\x1b\[(3[0-7]|9[0-7]|38;[\d;]+)m`).FindString(p.Text()); colors != "" {
		t.Errorf("there are colors (%q) in spite of NO_COLOR", colors)
	}
	kubeconfig := regexp.MustCompile(`KUBECONFIG=(\S+)`).FindStringSubmatch(p.Text())[1]
	if _, err := os.Stat(kubeconfig); err != nil {
		t.Errorf("the kubeconfig: %v", err)
	}
	terminal.Write(programtest.CtrlC)
	if code := p.Exit(); code != cli.ExitOK {
		t.Errorf("exit code %d after Ctrl-C of a demo that was kept", code)
	}
	p.LeavesNoProcess()
	p.LeavesNoFile()
}

func TestDemoCtrlCOnATerminal(t *testing.T) {
	t.Parallel()
	p := programtest.Prepare(t, "--daemon", programtest.Daemon(t))
	p.Command.Env = append(p.Command.Env, "TERM=xterm-256color")
	terminal := p.OnTerminal(80, 24)
	terminal.Await("node-002")
	if !regexp.MustCompile(`\x1b\[(\d+;)*3[0-7]m`).MatchString(p.Text()) {
		t.Error("there are no colors on a terminal")
	}
	terminal.Write(programtest.CtrlC)
	if code := p.Exit(); code != cli.ExitInterrupted {
		t.Errorf("exit code %d, want %d", code, cli.ExitInterrupted)
	}
	p.LeavesNoProcess()
	p.LeavesNoFile()
}

func TestDemoCommandLinesThatAreWrong(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"argument":         {[]string{"now"}, []string{`unknown argument "now"`}},
		"negative time":    {[]string{"--step-deadline", "-1s"}, []string{"--step-deadline: -1s: must not be negative"}},
		"fault of nothing": {[]string{"--cloud-fault", "mode=melt,status=x,size=1"}, []string{`status: "x": must be a number`, `"size": unknown`}},
		"fault values":     {[]string{"--cloud-fault", "operation=Fly,mode=status"}, []string{`operation: Invalid value: "Fly"`, "status: Invalid value: 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := programtest.Call(t, newDemo(), c.args...)
			if code != cli.ExitUsage {
				t.Errorf("exit code %d, want %d", code, cli.ExitUsage)
			}
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("the error does not say %q:\n%s", want, stderr)
				}
			}
		})
	}
}
