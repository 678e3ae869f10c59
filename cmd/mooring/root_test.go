package main

import (
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/programtest"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
)

func TestCommandLinesThatAreWrong(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"unknown command":  {[]string{"stat"}, []string{`unknown argument "stat" for "mooring"`, `did you mean "status"?`, "See 'mooring --help'"}},
		"mistyped command": {[]string{"chekc"}, []string{`unknown argument "chekc" for "mooring"`, `did you mean "check"?`}},
		"mistyped below":   {[]string{"sim", "sevre"}, []string{`unknown argument "sevre" for "mooring sim"`, `did you mean "serve"?`}},
		"check: all at once": {
			[]string{"check", "--lease", "x", "--output", "xml", "--kubeconfig", "/nowhere/config"},
			[]string{`--lease: "x": must be NAMESPACE/NAME`, `--output: "xml"`, "--kubeconfig: stat /nowhere/config"},
		},
		"unknown flag": {[]string{"status", "--forever"}, []string{"unknown flag: --forever", "See 'mooring status --help'"}},
		"sim: all at once": {
			[]string{
				"sim", "serve", "--admin-token-file", "/nowhere/token", "--page-size", "-1", "--latency", "-1s", "--quota-rate", "-2", "--instances", "70000",
				"--tls-cert-file", "x", "--fault", "mode=hang", "--log-format", "xml",
			},
			[]string{
				"--state-file: required", "--token-file: required", "--admin-token-file: token file: open /nowhere/token", "latency: Invalid value",
				"pageSize: Invalid value: -1", "quota.requestsPerSecond: Invalid value: -2", "--instances: 70000: must be 0 to 60000",
				"--tls-cert-file, --tls-private-key-file: both or none", "--fault: ", "--log-format: \"xml\": must be text or json",
			},
		},
		"sim: two seeds": {
			[]string{"sim", "serve", "--seed", "/nowhere/seed", "--instances", "3"}, []string{"--seed, --instances: only one of them"},
		},
		"sim: no seed": {[]string{"sim", "serve", "--seed", "/nowhere/seed"}, []string{"--seed: open /nowhere/seed"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := programtest.Call(t, newRoot(), c.args...)
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

func TestHelp(t *testing.T) {
	for _, args := range [][]string{
		{}, {"--help"}, {"sim"}, {"sim", "serve", "--help"}, {"conformance", "--help"}, {"build", "--help"},
		{"check", "--help"}, {"plan", "--help"}, {"status", "--help"}, {"orphans", "--help"},
	} {
		code, stdout, _ := programtest.Call(t, newRoot(), args...)
		if code != cli.ExitOK || !strings.Contains(stdout, "Usage:") || !strings.Contains(stdout, "Exit codes:") {
			t.Errorf("mooring %s: exit code %d, help:\n%s", strings.Join(args, " "), code, stdout)
		}
	}
	if code, stdout, _ := programtest.Call(t, newRoot(), "completion", "bash"); code != cli.ExitOK || !strings.Contains(stdout, "mooring") {
		t.Errorf("completion: exit code %d", code)
	}
}
