package power

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// script is a machine whose BMC is asked by a shell script.
func script(t *testing.T, body string, arguments ...string) *config.Machine {
	t.Helper()
	return &config.Machine{
		Name: "n1", ID: "one", SystemUUID: uuid1,
		Addresses: []config.Address{{Type: v1.NodeExternalIP, Address: "192.0.2.1"}, {Type: v1.NodeInternalIP, Address: "10.0.0.1"}},
		BMC:       &config.BMC{Command: &config.Command{Argv: append([]string{"/bin/sh", "-c", body, "sh"}, arguments...)}},
	}
}

func TestCommands(t *testing.T) {
	for name, test := range map[string]struct{ script, want string }{
		"on":                 {"echo on", "on"},
		"off":                {"printf ' off\n\n'", "off"},
		"unknown":            {"echo unknown", "unknown"},
		"anything else":      {"echo Off", `it printed "Off", want on, off or unknown`},
		"nothing":            {"", `it printed ""`},
		"two words":          {"echo off; echo on", `it printed "off\non"`},
		"off, and a failure": {"echo off; echo first >&2; echo 'no route' >&2; exit 3", `exit status 3: "no route"`},
		"a lot":              {"yes off | head -c 1000000", "it printed"},
		"environment": {
			`[ "$MACHINE_NAME $MACHINE_ID $MACHINE_PROVIDER_ID $MACHINE_SYSTEM_UUID $MACHINE_ADDRESS" = ` +
				`"n1 one metal://one ` + uuid1 + ` 10.0.0.1" ] && [ -z "$HOME$MOORING_TEST" ] && echo off`, "off",
		},
		"arguments":                {`[ "$1" = "a b" ] && echo off`, "off"},
		"a child holds the output": {"sleep 1000 & echo off", "off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("MOORING_TEST", "x")
			expect(t, open(t, script(t, test.script, "a b")), test.want)
		})
	}
	machine := script(t, "")
	machine.BMC.Command.Argv = []string{"/nowhere/power"}
	expect(t, open(t, machine), "no such file or directory")
}

// What a command started is killed with it, whether it hangs or has ended.
func TestCommandsLeaveNothingBehind(t *testing.T) {
	const hang = 5 * time.Second // A shell starts within that on a busy machine.
	for name, test := range map[string]struct {
		body    string
		timeout time.Duration
	}{
		"hangs":   {`sleep 1000 & echo $! >"$1"; echo off; wait`, hang},
		"ended":   {`sleep 1000 & echo $! >"$1"; echo off`, time.Minute},
		"ignores": {`trap '' TERM INT; sleep 1000 & echo $! >"$1"; echo off; while :; do wait; done`, hang},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // Two of them wait for their timeout.
			pids := filepath.Join(t.TempDir(), "pid")
			machine := script(t, test.body, pids)
			machine.BMC.Command.Timeout = metav1.Duration{Duration: test.timeout}
			reading, err := open(t, machine).Read(t.Context())
			state := reading.State
			if name == "ended" {
				if state != Off || err != nil {
					t.Errorf("%s, %v", state, err)
				}
			} else if state != Unknown || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s, %v; want a deadline", state, err)
			}
			text, err := os.ReadFile(pids)
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			poll.Until(t, fmt.Sprintf("the end of process %d", pid), func(context.Context) error { return poll.Holds(!alive(pid)) })
		})
	}
}

// alive reports whether a process runs. A killed one may be a zombie until the init process here reaps it.
func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(status), ") Z ")
}
