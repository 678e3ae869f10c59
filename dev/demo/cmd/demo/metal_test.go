package main

import (
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/netlab"
	"github.com/mooring-ccm/mooring/dev/programtest"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
)

// requireNamespaces skips the test where network namespaces cannot be made, or fails if nothing may be skipped.
func requireNamespaces(t *testing.T, kind netlab.Kind) {
	t.Helper()
	if _, _, err := netlab.Check(kind); err != nil {
		t.Log(err)
		sandbox.Require(t, "ip", "nsenter", map[netlab.Kind]string{netlab.FRR: "/usr/lib/frr/bgpd", netlab.BIRD: "bird"}[kind], "nft")
	}
}

// TestDemoMetal runs the whole demo of bare metal with each router. With BIRD it keeps the demo running until a signal ends it.
func TestDemoMetal(t *testing.T) {
	for _, kind := range netlab.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			requireNamespaces(t, kind)
			t.Parallel()
			args := []string{"--provider=metal", "--router=" + string(kind), "--daemon", programtest.Daemon(t)}
			keep := kind == netlab.BIRD
			if keep {
				args = append(args, "--keep")
			}
			p := programtest.Start(t, args...)
			if keep {
				p.Await("netlab birdc -s ")
				p.Await("netlab ip netns exec client curl 'http://192.0.2.")
				p.Signal(syscall.SIGINT)
			}
			if code := p.Exit(); code != cli.ExitOK {
				t.Fatalf("exit code %d", code)
			}
			_, summary, found := strings.Cut(p.Text(), "\nSummary\n")
			if !found {
				t.Fatal("there is no summary")
			}
			summary = strings.Join(strings.Fields(summary), " ")
			for _, want := range []string{
				map[netlab.Kind]string{netlab.FRR: `zebra and bgpd; AS 64512`, netlab.BIRD: `bird; AS 64512`}[kind],
				`3 systems are on and one is off`,
				`for example metal://serial-1, with 10\.78\.1\.1 and fd00:78::1:1`,
				`6 routes, for example to 10\.244\.\d+\.0/24 by way of 10\.78\.1\.1`,
				`192\.0\.2\.\d+ and 2001:db8:1::\w*, after \d+\.\d+ s`,
				`3 next hops each, \d+\.\d+ s after the address`,
				`120 requests were answered by 3 nodes; with policy Local they saw the client's own addresses`,
				`with all routes handed over: ccm-a \d+\.\d+ s, ccm-b \d+\.\d+ s`,
				`10 routes; all of \d{3,} requests were answered.* A machine dies`,
				`metal-3 is out of the router's table after \d+\.\d+ s`,
				`policy Local: all requests are answered again \S+ s \d+ of \d+ were lost, within \d+\.\d+ s`,
				`a node's kubelet has to be silent for`,
				`any to the dead one's pods \d+ of \d+ were lost, within \d+\.\d+ s`,
				`ccm-b leads after \d+\.\d+ s`,
				`10 routes; all of \d{2,} requests were answered`,
				`metal-3 is deleted after \d+\.\d+ s`,
				`it has 8 routes`,
				`metal-4; the group "reserve" has 0 of 1`,
				`metal-4 is on after \d+\.\d+ s, by Redfish`,
				`metal://serial-4 after \d+\.\d+ s`,
				`archive goes to 3 nodes`,
				`All 33 steps happened, in `,
			} {
				if !regexp.MustCompile(want).MatchString(summary) {
					t.Errorf("the summary does not say %q", want)
				}
			}
			p.LeavesNoProcess()
			p.LeavesNoFile()
		})
	}
}

// However the demo is ended, no process is left; and if it can still do anything, no file. A process in the namespaces cannot be found
// by its parent: that the directory of the run is in its command line, as leavesNoProcess looks for it, holds there too.
func TestDemoMetalInterrupted(t *testing.T) {
	requireNamespaces(t, "")
	// Without --keep, it would end by itself.
	interrupt(t, map[string]interruption{
		"while nodes join":               {"metal-2  tainted", syscall.SIGTERM, cli.ExitInterrupted},
		"while the control plane starts": {"a real router runs", syscall.SIGINT, cli.ExitInterrupted},
		"killed":                         {"metal-2  tainted", syscall.SIGKILL, -1},
	}, "--provider=metal", "--keep")
}

// A step that does not happen is named outside the namespaces too, and the logs are kept.
func TestDemoMetalFails(t *testing.T) {
	requireNamespaces(t, "")
	t.Parallel()
	p := programtest.Start(t, "--provider=metal", "--daemon", programtest.Daemon(t), "--step-deadline=500ms")
	if code := p.Exit(); code != cli.ExitFailed {
		t.Errorf("exit code %d, want %d", code, cli.ExitFailed)
	}
	// The control plane does not start that fast, and on a busy machine the network is not there by then.
	want := `(?s)\ndemo: [a-z-]+/[a-z-]+: .*it did not happen within 500ms.*\nlogs are in \S+\n$`
	if !regexp.MustCompile(want).MatchString(p.Text()) {
		t.Errorf("the last lines are not the error")
	}
	p.LeavesNoProcess()
}

// On a terminal, Ctrl-C reaches the demo inside the namespaces.
func TestDemoMetalOnATerminal(t *testing.T) {
	requireNamespaces(t, "")
	t.Parallel()
	p := programtest.Prepare(t, "--provider=metal", "--daemon", programtest.Daemon(t))
	p.Command.Env = append(p.Command.Env, "TERM=xterm-256color")
	terminal := p.OnTerminal(100, 30)
	terminal.Await("metal-2")
	terminal.Write(programtest.CtrlC)
	if code := p.Exit(); code != cli.ExitInterrupted {
		t.Errorf("exit code %d, want %d", code, cli.ExitInterrupted)
	}
	if !strings.Contains(p.Text(), "\x1b[?1049l") {
		t.Error("the terminal was not given back")
	}
	p.LeavesNoProcess()
	p.LeavesNoFile()
}

func TestDemoMetalSaysWhatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	code, _, stderr := programtest.Call(t, newDemo(), "--provider=metal", "--router=bird")
	if code != cli.ExitFailed {
		t.Errorf("exit code %d, want %d", code, cli.ExitFailed)
	}
	for _, want := range []string{"--provider=metal: missing: ", "package iproute2", "package util-linux", "BIRD (package bird2)"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("%q does not say %q", stderr, want)
		}
	}
}

func TestDemoRefusesFlagsOfAnotherProvider(t *testing.T) {
	for want, args := range map[string][]string{
		`--provider: "cloud": must be one of`:   {"--provider=cloud"},
		`--router: "cisco": must be one of`:     {"--provider=metal", "--router=cisco"},
		`--router: needs --provider=metal`:      {"--router=frr"},
		`--install: needs --provider=openstack`: {"--install"},
		`--cloud-fault: needs --provider=sim`:   {"--provider=metal", "--cloud-fault=operation=ListInstances,mode=status,status=503"},
	} {
		code, _, stderr := programtest.Call(t, newDemo(), args...)
		if code != cli.ExitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, %q", args, code, stderr)
		}
	}
}
