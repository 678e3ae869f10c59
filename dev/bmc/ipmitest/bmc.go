// Package ipmitest runs a management controller that speaks IPMI: ipmi_sim of the Debian package openipmi, which is also what
// ships in hardware.
package ipmitest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/poll"
)

// Programs that the tests of IPMI need, of the Debian packages openipmi and ipmitool.
const (
	simulator = "ipmi_sim"
	tool      = "ipmitool"
)

// BMC is a management controller that runs until the test ends. It has the user monitor, who may look, and the user admin, who
// may do everything, both with the same password.
type BMC struct {
	// Address is the host:port of the BMC, and Password the password of its users.
	Address, Password string

	t     *testing.T
	power string
	run   *exec.Cmd
}

// The users of a BMC.
const (
	Monitor = "monitor"
	Admin   = "admin"
)

// chassis is what the simulator runs to learn of the machine's power and to change it. Its first argument is the file with it.
const chassis = `#!/bin/sh
state=$1; op=$3; shift 3
case $op in
get) for what; do if [ "$what" = power ]; then echo "power:$(cat "$state")"; else echo "$what:0"; fi; done ;;
set) while [ $# -gt 0 ]; do [ "$1" = power ] && echo "$2" >"$state"; shift 2; done ;;
esac
`

const lan = `name "bmc"
set_working_mc 0x20
  startlan 1
    addr %s %s
    priv_limit admin
    allowed_auths_user md5
    allowed_auths_admin md5
    guid %s
  endlan
  chassis_control "%s %s 0x20"
  user 1 true "" "" user 10 none md5
  user 2 true "monitor" "%[6]s" user 10 md5
  user 3 true "admin" "%[6]s" admin 10 md5
`

const commands = "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02\nmc_enable 0x20\n"

// GUID is what a BMC of Start gives as its system's, as hexadecimal digits in the order of the bytes.
const GUID = "a123456789abcdefa123456789abcdef"

// Start runs a BMC of a machine that is on, on an IP address of this host. The test is skipped if the programs are missing,
// and fails with MOORING_REQUIRE_ALL=1.
func Start(t *testing.T, ip, password string) *BMC {
	t.Helper()
	return StartWithGUID(t, ip, password, GUID)
}

// StartWithGUID does as Start, with the GUID of its system as 32 hexadecimal digits in the order of the bytes.
func StartWithGUID(t *testing.T, ip, password, guid string) *BMC {
	t.Helper()
	for _, program := range []string{simulator, tool} {
		_, err := exec.LookPath(program)
		switch {
		case err == nil:
		case os.Getenv("MOORING_REQUIRE_ALL") == "1":
			t.Fatalf("the Debian packages openipmi and ipmitool are needed, and MOORING_REQUIRE_ALL=1 forbids to skip: %v", err)
		default:
			t.Skipf("the Debian packages openipmi and ipmitool are needed: %v", err)
		}
	}
	dir := t.TempDir()
	address := freeAddress(t, ip)
	host, port, err := net.SplitHostPort(address)
	bmc := &BMC{Address: address, Password: password, t: t, power: filepath.Join(dir, "power")}
	script := filepath.Join(dir, "chassis")
	err = errors.Join(err,
		os.WriteFile(bmc.power, []byte("1\n"), 0o600),
		os.WriteFile(script, []byte(chassis), 0o700),
		os.WriteFile(filepath.Join(dir, "lan.conf"), fmt.Appendf(nil, lan, host, port, guid, script, bmc.power, password), 0o600),
		os.WriteFile(filepath.Join(dir, "commands"), []byte(commands), 0o600),
		os.Mkdir(filepath.Join(dir, "state"), 0o700),
	)
	if err != nil {
		t.Fatal(err)
	}
	bmc.run = exec.Command(simulator, "-c", "lan.conf", "-f", "commands", "-s", "state", "-n")
	bmc.run.Dir = dir
	if err := bmc.run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bmc.Kill)
	bmc.await()
	return bmc
}

// freeAddress returns an address with an unused UDP port.
func freeAddress(t *testing.T, ip string) string {
	t.Helper()
	listening, err := net.ListenPacket("udp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listening.Close() }()
	return listening.LocalAddr().String()
}

// await waits until the BMC answers.
func (b *BMC) await() {
	b.t.Helper()
	poll.Within(b.t, 20*time.Second, simulator+" answers", func(context.Context) error {
		output, err := b.ipmitool("power", "status")
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
}

// Tool does something to the machine by ipmitool as the user admin, and returns what that prints.
func (b *BMC) Tool(arguments ...string) string {
	b.t.Helper()
	output, err := b.ipmitool(arguments...)
	if err != nil {
		b.t.Fatalf("%s %q: %v: %s", tool, arguments, err, output)
	}
	return output
}

func (b *BMC) ipmitool(arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(b.t.Context(), 10*time.Second)
	defer cancel()
	host, port, err := net.SplitHostPort(b.Address)
	if err != nil {
		return "", err
	}
	// ipmi_sim has cipher suite 3 only.
	options := []string{"-I", "lanplus", "-H", host, "-p", port, "-U", Admin, "-E", "-C", "3"}
	run := exec.CommandContext(ctx, tool, append(options, arguments...)...)
	run.Env = []string{"PATH=" + os.Getenv("PATH"), "IPMI_PASSWORD=" + b.Password}
	output, err := run.CombinedOutput()
	return strings.TrimSpace(string(output)), err
}

// Kill ends the BMC: it no longer answers.
func (b *BMC) Kill() {
	if b.run.ProcessState == nil {
		_ = b.run.Process.Kill()
		_ = b.run.Wait()
	}
}
