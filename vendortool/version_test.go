package vendortool

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mooring-ccm/mooring/internal/tool/cli"
	"github.com/mooring-ccm/mooring/internal/version"
)

// TestVersion asks for the version in every way that there is.
func TestVersion(t *testing.T) {
	want := version.Get()
	said := func(args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		root := New()
		root.SetArgs(args)
		root.SetOut(&stdout)
		if code := cli.Execute(t.Context(), root, &stderr); code != cli.ExitOK {
			t.Fatalf("%v: exit code %d: %s", args, code, stderr.String())
		}
		return stdout.String()
	}
	for _, args := range [][]string{{"version"}, {"--version"}} {
		if have := said(args...); have != want.String()+"\n" || !strings.HasPrefix(have, "Kubernetes v") {
			t.Errorf("%v: it says %q, want %q", args, have, want)
		}
	}
	for format, read := range map[string]func([]byte, any) error{
		"json": json.Unmarshal, "yaml": func(text []byte, into any) error { return yaml.UnmarshalStrict(text, into) },
	} {
		var have versionDocument
		if err := read([]byte(said("version", "--output="+format)), &have); err != nil || have.Info != want || have.Kind != "Version" {
			t.Errorf("%s: %v: it says %+v, want %+v", format, err, have, want)
		}
	}
	if have := said("version", "-o", "jsonpath={.kubernetes}"); have != want.Kubernetes {
		t.Errorf("jsonpath: %q, want %q", have, want.Kubernetes)
	}
	var stderr bytes.Buffer
	root := New()
	root.SetArgs([]string{"version", "-o", "xml"})
	if code := cli.Execute(t.Context(), root, &stderr); code != cli.ExitUsage || !strings.Contains(stderr.String(), `"xml": must be table, wide, json`) {
		t.Errorf("exit code %d, want %d: %s", code, cli.ExitUsage, stderr.String())
	}
}
