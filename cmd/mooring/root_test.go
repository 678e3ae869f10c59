package main

import (
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/internal/cli"
)

func TestCommandLinesThatAreWrong(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"unknown command":  {[]string{"dem"}, []string{`unknown argument "dem" for "mooring"`, `did you mean "demo"?`, "See 'mooring --help'"}},
		"mistyped command": {[]string{"chekc"}, []string{`unknown argument "chekc" for "mooring"`, `did you mean "check"?`}},
		"mistyped below":   {[]string{"sim", "sevre"}, []string{`unknown argument "sevre" for "mooring sim"`, `did you mean "serve"?`}},
		"check: all at once": {
			[]string{"check", "--lease", "x", "--output", "xml", "--kubeconfig", "/nowhere/config"},
			[]string{`--lease: "x": must be NAMESPACE/NAME`, `--output: "xml"`, "--kubeconfig: stat /nowhere/config"},
		},
		"unknown flag":     {[]string{"demo", "--forever"}, []string{"unknown flag: --forever", "See 'mooring demo --help'"}},
		"argument":         {[]string{"demo", "now"}, []string{`unknown argument "now"`}},
		"negative time":    {[]string{"demo", "--step-deadline", "-1s"}, []string{"--step-deadline: -1s: must not be negative"}},
		"fault of nothing": {[]string{"demo", "--cloud-fault", "mode=melt,status=x,size=1"}, []string{`status: "x": must be a number`, `"size": unknown`}},
		"fault values":     {[]string{"demo", "--cloud-fault", "operation=Fly,mode=status"}, []string{`operation: Invalid value: "Fly"`, "status: Invalid value: 0"}},
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
			code, _, stderr := call(t, c.args...)
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
		{}, {"--help"}, {"demo", "--help"}, {"sim"}, {"sim", "serve", "--help"}, {"conformance", "--help"}, {"build", "--help"},
		{"check", "--help"}, {"plan", "--help"}, {"status", "--help"}, {"orphans", "--help"},
	} {
		code, stdout, _ := call(t, args...)
		if code != cli.ExitOK || !strings.Contains(stdout, "Usage:") || !strings.Contains(stdout, "Exit codes:") {
			t.Errorf("mooring %s: exit code %d, help:\n%s", strings.Join(args, " "), code, stdout)
		}
	}
	if code, stdout, _ := call(t, "completion", "bash"); code != cli.ExitOK || !strings.Contains(stdout, "mooring") {
		t.Errorf("completion: exit code %d", code)
	}
}
