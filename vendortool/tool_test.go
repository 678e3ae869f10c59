package vendortool

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/internal/tool/cli"
)

// A vendor's tool has the commands that concern providers, and finds no provider that is not linked.
func TestNew(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, cli.ExitOK, "conformance"},
		{[]string{"conformance", "--help"}, cli.ExitOK, "Exit codes:"},
		{[]string{"demo"}, cli.ExitUsage, `unknown argument "demo"`},
		{[]string{"conformance", "--cloud-provider=fog"}, cli.ExitUsage, `"fog": not in this program`},
	} {
		root := New()
		root.SetArgs(append([]string{}, c.args...))
		var out bytes.Buffer
		root.SetOut(&out)
		if code := cli.Execute(t.Context(), root, &out); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%v: exit code %d, want %d and %q:\n%s", c.args, code, c.code, c.want, out.String())
		}
	}
}
