package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/cloudconfig"
	"github.com/mooring-ccm/mooring/dev/programtest"
	"github.com/mooring-ccm/mooring/internal/cli"
)

// callWith runs a command with something on standard input.
func callWith(t *testing.T, input string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	root := newRoot()
	var out, progress, failure bytes.Buffer
	root.SetArgs(args)
	root.SetIn(strings.NewReader(input))
	root.SetOut(&out)
	root.SetErr(io.MultiWriter(&progress))
	code = cli.Execute(t.Context(), root, &failure)
	return code, out.String(), progress.String() + failure.String()
}

func TestValidate(t *testing.T) {
	const (
		head  = "apiVersion: metal.mooring.dev/v1alpha1\nkind: MetalCloudConfig\n"
		valid = head + "pools: [{name: p, addresses: [192.0.2.0/24]}]\nl2: {}\n"
	)
	for name, c := range map[string]struct {
		input  string
		flags  []string
		code   int
		stdout string
	}{
		"valid":            {valid, nil, cli.ExitOK, "standard input: MetalCloudConfig of the provider metal\nvalid: 0 errors, 0 warnings\n"},
		"suspicious":       {head, nil, cli.ExitOK, "valid: 0 errors, 1 warning\n"},
		"strict":           {head, []string{"--strict"}, cli.ExitFailed, "valid: 0 errors, 1 warning\n"},
		"invalid":          {head + "pools: 3\n", nil, cli.ExitFailed, "invalid: 1 error, 0 warnings\n"},
		"custom columns":   {head + "pools: 3\n", []string{"-o", "custom-columns=AT:.field"}, cli.ExitFailed, "AT\npools\n"},
		"no file":          {"", []string{"--cloud-config="}, cli.ExitUsage, ""},
		"file is not here": {"", []string{"--cloud-config=/nowhere/cloud.yaml"}, cli.ExitUsage, ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := callWith(t, c.input, append([]string{"validate", "--cloud-config=-"}, c.flags...)...)
			if code != c.code || !strings.HasSuffix(stdout, c.stdout) || (code == cli.ExitOK) != (stderr == "") {
				t.Errorf("exit code %d, want %d, with %q\n%s%s", code, c.code, c.stdout, stdout, stderr)
			}
		})
	}
	file := write(t, head+"pools: [{name: p, addresses: [192.0.2.0/24, 192.0.2.1]}]\n")
	code, stdout, _ := programtest.Call(t, newRoot(), "validate", "--cloud-config="+file, "--output=json")
	var report struct {
		Kind string
		cloudconfig.Report
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != cli.ExitFailed || report.Kind != "ValidationReport" ||
		report.Valid || len(report.Findings) != 1 || report.Findings[0].Field != "pools[0].addresses[1]" {
		t.Errorf("exit code %d, %v: %s", code, err, stdout)
	}
}
