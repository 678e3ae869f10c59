package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/openstack/openstacktest"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/dev/programtest"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
)

// wholeDemo, set to 1, has the whole demo of OpenStack run, which takes minutes. make test-openstack sets it.
const wholeDemo = "MOORING_DEMO_OPENSTACK"

// openstackPatience bounds a demo of OpenStack, which takes a minute and a half on an idle machine.
const openstackPatience = 25 * time.Minute

// TestDemoOpenStack runs the whole demo on the services of OpenStack, and keeps it running until a signal ends it.
func TestDemoOpenStack(t *testing.T) {
	if os.Getenv(wholeDemo) != "1" {
		t.Skip("takes minutes: make test-openstack runs it")
	}
	openstacktest.Require(t)
	p := programtest.Start(t, "--provider=openstack", "--install", "--keep", "--daemon", programtest.Daemon(t))
	p.AwaitWithin(openstackPatience, "openstack loadbalancer list")
	p.Signal(syscall.SIGINT)
	if code := p.Exit(); code != cli.ExitOK {
		t.Fatalf("exit code %d", code)
	}
	text := p.Text()
	for n := 1; n <= 6; n++ {
		way := fmt.Sprintf(`(?s)server-%d  tainted\n.*server-%d  ready +after \S+ \S+  openstack:///[0-9a-f-]{36}  az-[abc]  m1\.small  10\.6\.0\.\d+`, n, n)
		if !regexp.MustCompile(way).MatchString(text) {
			t.Errorf("the way of server-%d is not shown", n)
		}
	}
	for _, want := range []string{
		`keystone  POST   /v3/auth/tokens  201, `, `nova      GET    /v2\.1/servers/detail  200, `, `neutron   GET    /v2\.0/ports  200, `,
		`neutron   PUT    /v2\.0/routers/\{id\}/add_extraroutes  200, `, `octavia   POST   /v2\.0/lbaas/loadbalancers  201, `,
		`octavia   PUT    /v2\.0/lbaas/pools/\{id\}/members  202, `, `keystone  POST   /v3/auth/tokens  no answer, `,
		`server-6  shut down\n`, `server-5  deleted\n`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("the output does not show %q", want)
		}
	}
	_, summary, _ := strings.Cut(text, "\nSummary\n")
	summary = strings.Join(strings.Fields(summary), " ")
	for _, want := range []string{
		`6 routes, for example to 10\.244\.\d+\.0/24 by way of 10\.6\.0\.\d+`,
		`203\.0\.113\.\d+, port 80, is there after \S+ s, with 6 nodes behind it`,
		`203\.0\.113\.\d+ is there after \S+ s, while every login fails`,
		`All 20 steps happened, in `, `export OS_CLIENT_CONFIG_FILE=\S+/clouds\.yaml OS_CLOUD=k8s`,
	} {
		if !regexp.MustCompile(want).MatchString(summary) {
			t.Errorf("the summary does not say %q", want)
		}
	}
	p.LeavesNoProcess()
	leavesNoService(t, p)
	p.LeavesNoFile()
}

// However the demo is ended, no service is left; and if it can still do anything, no file.
func TestDemoOpenStackInterrupted(t *testing.T) {
	openstacktest.Require(t)
	for name, c := range map[string]struct {
		signal syscall.Signal
		code   int
	}{
		"by Ctrl-C": {syscall.SIGINT, cli.ExitInterrupted},
		"killed":    {syscall.SIGKILL, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := programtest.Start(t, "--provider=openstack", "--daemon", programtest.Daemon(t))
			p.Await("starting database, messages and OVN")
			p.Signal(c.signal)
			if code := p.Exit(); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			p.LeavesNoProcess()
			leavesNoService(t, p)
			if c.signal != syscall.SIGKILL {
				p.LeavesNoFile()
			}
		})
	}
}

// leavesNoService waits until no process has the directory of the run mounted: the services know it by another name.
func leavesNoService(t *testing.T, p *programtest.Program) {
	t.Helper()
	poll.Within(t, programtest.Patience, "no service is left", func(context.Context) error {
		mounts, err := filepath.Glob("/proc/[0-9]*/mountinfo")
		if err != nil {
			return err
		}
		for _, path := range mounts {
			if content, _ := os.ReadFile(path); strings.Contains(string(content), p.Temp) {
				return fmt.Errorf("process %s is left", filepath.Base(filepath.Dir(path)))
			}
		}
		return nil
	})
}

func TestDemoOpenStackSaysWhatIsMissing(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	code, _, stderr := programtest.Call(t, newDemo(), "--provider=openstack")
	if code != cli.ExitFailed || !strings.Contains(stderr, "--provider=openstack: missing: ") || !strings.Contains(stderr, "the packages of OpenStack in ") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if os.Geteuid() == 0 && !strings.Contains(stderr, `: make demo ARGS="--provider=openstack --install" installs them first`) {
		t.Errorf("%q does not say what installs them", stderr)
	}
}
