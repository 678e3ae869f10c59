package ccm

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// TestVersionFlag asks for the version as people ask programs of Kubernetes. Neither form shows the template of a version that no
// linker has filled in.
func TestVersionFlag(t *testing.T) {
	for flag, want := range map[string][]string{
		"--version":     {"Kubernetes v", "+mooring-", "\nMooring "},
		"--version=raw": {`GitVersion:"v`, `Minor:"`, `GitTreeState:"`},
	} {
		command, out := NewCommand(), &bytes.Buffer{}
		command.SetArgs([]string{flag})
		command.SetOut(out)
		t.Cleanup(func() { _ = command.Flags().Set("version", "false") }) // the flag is one for the whole process
		if err := command.ExecuteContext(t.Context()); err != nil {
			t.Fatalf("%s: %v", flag, err)
		}
		for _, part := range want {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%s: it says %q, and not %q", flag, out, part)
			}
		}
		if strings.Contains(out.String(), "$Format") {
			t.Errorf("%s: it says %q", flag, out)
		}
	}
}

// TestClientsNameTheVersion asks for clients in every way in which controllers and plugins do.
func TestClientsNameTheVersion(t *testing.T) {
	for _, separate := range []bool{false, true} {
		identity, err := newIdentities(&rest.Config{Host: "https://192.0.2.1"}, separate, "", newFence())
		if err != nil {
			t.Fatal(err)
		}
		if separate {
			if _, ok := identity.builder.(stampedBuilder); !ok {
				t.Error("the clients of separate identities do not name the version")
			}
			continue
		}
		config, err := identity.of("node-controller")
		if err != nil {
			t.Fatal(err)
		}
		for _, agent := range []string{config.UserAgent, identity.builder.ConfigOrDie("node-controller").UserAgent} {
			if !strings.HasPrefix(agent, "ccm.test/") || !strings.HasSuffix(agent, " mooring/unknown/node-controller") {
				t.Errorf("the user agent is %q", agent)
			}
		}
	}
}
