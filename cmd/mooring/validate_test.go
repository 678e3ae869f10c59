package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/cloudconfig"
	"github.com/mooring-ccm/mooring/dev/programtest"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
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

// A signal ends a command that reads what is typed.
func TestWhatIsTypedIsInterrupted(t *testing.T) {
	for _, args := range [][]string{{"validate", "--cloud-config=-"}, {"convert", "metallb"}} {
		synctest.Test(t, func(t *testing.T) {
			reader, writer := io.Pipe()
			defer func() { _ = writer.Close() }()
			root := newRoot()
			root.SetArgs(args)
			root.SetIn(reader)
			root.SetOut(io.Discard)
			ctx, signal := context.WithCancel(t.Context())
			defer signal()
			time.AfterFunc(time.Second, signal)
			var stderr bytes.Buffer
			if code := cli.Execute(ctx, root, &stderr); code != cli.ExitInterrupted {
				t.Errorf("%v: exit code %d: %s", args, code, &stderr)
			}
		})
	}
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
			// What standard output ends with is not said twice.
			said := code == cli.ExitOK || strings.HasSuffix(stdout, " warnings\n") || strings.HasSuffix(stdout, " warning\n")
			if code != c.code || !strings.HasSuffix(stdout, c.stdout) || said != (stderr == "") {
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
