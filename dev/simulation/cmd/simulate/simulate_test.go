package main

import (
	"bytes"
	"cmp"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/program"
)

// TestMain runs the tests, or is a process of a campaign.
func TestMain(m *testing.M) {
	if os.Getenv(program.SelfEnv) != "" {
		os.Exit(simulate(os.Args[1:], os.Stdout, os.Stderr))
	}
	m.Run()
}

func TestArguments(t *testing.T) {
	for _, test := range []struct{ argument, names string }{
		{"--draws=0", "--draws=0"},
		{"--draws=many", "-draws"},
		{"--seed=-1", "-seed"},
		{"--processes=0", "--processes=0"},
		{"--timeout=0s", "--timeout=0s"},
		{"--colour", "-colour"},
		{"once more", `"more"`},
		{"--repeat once", `"once"`},
		{"--trace --shrink=9", "--trace and --shrink"},
		{"--repeat --trace", "--repeat"},
	} {
		_, err := parse(strings.Fields(test.argument), new(bytes.Buffer))
		if err == nil || !strings.Contains(err.Error(), test.names) {
			t.Errorf("%s: %v", test.argument, err)
		}
	}
}

// TestRepeats runs draws in two processes each: they break the same rules, and nearly all objects have the same traces.
func TestRepeats(t *testing.T) {
	var out, messages bytes.Buffer
	simulate([]string{"--repeat", "--draws=6"}, &out, &messages)
	report := out.String()
	if !strings.Contains(report, "6 of 6 (100.0 %) draws broke the same rules;") {
		t.Errorf("the outcome differs: %s%s", report, messages.String())
	}
	if !regexp.MustCompile(`\(([89]\d|100)\.\d %\) objects had the same traces`).MatchString(report) {
		t.Errorf("the traces differ: %s", report)
	}
}

// TestFailedDraws runs draws whose processes are ended: each is reported, and the campaign goes on.
func TestFailedDraws(t *testing.T) {
	var out, messages bytes.Buffer
	code := simulate([]string{"--draws=3", "--timeout=1ms"}, &out, &messages)
	report := out.String()
	if code != 1 || strings.Count(report, "no result after 1ms") != 3 || !strings.Contains(report, "3 draws failed: [") || strings.Contains(report, "go on with") {
		t.Errorf("exit code %d: %s%s", code, report, messages.String())
	}
}

// drawsVariable is the environment variable for the number of draws.
const drawsVariable = "MOORING_SIMULATION_DRAWS"

// TestDraws runs a campaign. A draw that breaks a rule in a way that is not listed fails.
func TestDraws(t *testing.T) {
	draws := cmp.Or(os.Getenv(drawsVariable), "40")
	var out, messages bytes.Buffer
	if code := simulate([]string{"--draws=" + draws}, &out, &messages); code != 0 {
		t.Errorf("code %d: %s", code, messages.String())
	}
	t.Log(out.String())
}
