package cloudconfig

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// elsewhere finds what a config must not name in a fuzzer: files of this machine.
var elsewhere = regexp.MustCompile(`paths|/dev|/proc|/sys|\.\.`)

// FuzzExamine asserts that every config gets a report that agrees with itself, and that its text can be shown in a terminal.
func FuzzExamine(f *testing.F) {
	for _, text := range []string{
		"", "{}", "[]", "[Global]\nregion=\x1b\n[Global \"", "[LoadBalancerClass \"\\x\"]\na\\\n",
		"kind: CloudConfig\n", "apiVersion: sim.mooring.dev/v1alpha1\nkind: CloudConfig\nendpoint: http://x\ntokenFile: t\nregion: r\n",
		"apiVersion: metal.mooring.dev/v1alpha1\nkind: MetalCloudConfig\npools: [{name: a, addresses: [192.0.2.0/24]}]\n",
		"apiVersion: metal.mooring.dev/v1alpha1\nkind: MachineList\nmachines: [{name: a, bmc: {credentials: {passwordFile: x}}}]\n",
		"apiVersion: metal.mooring.dev/v9\nkind: MetalCloudConfig\n", "apiVersion: \"\\x1b[2J\"\nkind: \"\\n\"\n", "a: &a [*a,*a]\n", "\xff",
		"apiVersion: v1\nkind: " + strings.Repeat("x", 10000) + "\n",
	} {
		f.Add([]byte(text))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		if elsewhere.Match(data) {
			return // what it says depends on files
		}
		report := Examine(data, dir, "", true)
		if report.Valid != (report.Provider != "" && report.Count(Error) == 0) {
			t.Errorf("valid %t of the provider %q, with %d errors", report.Valid, report.Provider, report.Count(Error))
		}
		for _, finding := range report.Findings {
			if finding.Message == "" || len(finding.Field)+len(finding.Message) > 6000 {
				t.Errorf("%.300q: %d bytes: %.300q", finding.Field, len(finding.Message), finding.Message)
			}
		}
		text := report.Text("cloud.yaml")
		control := func(r rune) bool { return r != '\n' && unicode.IsControl(r) }
		if !utf8.ValidString(text) || strings.IndexFunc(text, control) >= 0 {
			t.Errorf("%q", text)
		}
	})
}
