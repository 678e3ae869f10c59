package main

import (
	"os"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/programtest"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
)

const (
	metalLBPool = "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: p}\nspec: {addresses: [192.0.2.0/24]%}\n"
	metalLBL2   = "---\napiVersion: metallb.io/v1beta1\nkind: L2Advertisement\nmetadata: {name: l}\n"
)

// What convert writes, validate takes.
func TestConvert(t *testing.T) {
	pool, unknown := strings.Replace(metalLBPool, "%", "", 1), strings.Replace(metalLBPool, "%", ", color: red", 1)
	for name, c := range map[string]struct {
		input          string
		flags          []string
		code           int
		stdout, stderr string
	}{
		"fine":              {pool + metalLBL2, []string{"--strict"}, cli.ExitOK, "l2: {}", "ACTION L2Advertisement: "},
		"an unknown field":  {unknown + metalLBL2, nil, cli.ExitOK, "name: p", `LOST IPAddressPool p: spec.color: unknown field "spec.color"`},
		"strict":            {unknown + metalLBL2, []string{"--strict"}, cli.ExitFailed, "name: p", "1 thing without a counterpart"},
		"comments":          {unknown + metalLBL2, []string{"--comments"}, cli.ExitOK, "# LOST IPAddressPool p: spec.color", "LOST"},
		"nothing of it":     {"kind: Pod\napiVersion: v1\n", nil, cli.ExitFailed, "", "there is no IPAddressPool"},
		"file is not there": {"", []string{"-f", "/nowhere/metallb.yaml"}, cli.ExitUsage, "", "--filename: open /nowhere/metallb.yaml"},
		"several files":     {metalLBL2, []string{"-f", write(t, pool), "-f", "-"}, cli.ExitOK, "l2: {}", "ACTION"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := callWith(t, c.input, append([]string{"convert", "metallb"}, c.flags...)...)
			if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
				t.Errorf("exit code %d, want %d\n%s%s", code, c.code, stdout, stderr)
			}
			if stdout == "" {
				return
			}
			if code, said, _ := callWith(t, stdout, "validate", "--cloud-config=-", "--strict"); code != cli.ExitOK {
				t.Errorf("validate refuses it: %s\n%s", said, stdout)
			}
		})
	}
	large := write(t, "")
	if err := os.Truncate(large, maxConfig+1); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := programtest.Call(t, newRoot(), "convert", "metallb", "-f", large); code != cli.ExitUsage || !strings.Contains(stderr, "larger than 64 MiB") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
