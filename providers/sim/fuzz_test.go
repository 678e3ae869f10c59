package sim

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-ccm/mooring/provider"
)

// FuzzConfig asserts that a config that is accepted is accepted again as it was understood, and that an error names fields.
func FuzzConfig(f *testing.F) {
	const head = "apiVersion: sim.mooring.dev/v1alpha1\nkind: CloudConfig\n"
	for _, text := range []string{
		"", head, head + "endpoint: https://cloud.example:8443/base\ntokenFile: /t\nregion: r\nclusterName: blue\nmaxRoutes: 3\nrequestTimeout: 3s\n",
		head + "endpoint: https://u:p@x\ntokenFile: t\nregion: r\n", head + "endpoint: http://x?y\nrequestTimeout: -1s\nrouteBatch: 101\n",
		head + "endpoint: 'http://[::1'\nmaxRoutes: 99999999999999999999\n", head + "endpoint: 1\nregion: [a]\nclusterName: A_B\nwatch: maybe\n",
		"{}", "[]", `{"apiVersion":"sim.mooring.dev/v1alpha1","kind":"CloudConfig","endpoint":"http://x","tokenFile":"t","region":"r"}`,
		head + "\"a\\x1b\": 1\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		errs, _ := ExamineConfig(data)
		for _, err := range errs {
			if text := err.Error(); err.Field == "" || len(text) > 4000 || !utf8.ValidString(text) || strings.IndexFunc(text, unicode.IsControl) >= 0 {
				t.Errorf("%d bytes about %q: %q", len(text), err.Field, text)
			}
		}
		var first, again Config
		if len(decodeConfig(data, &first, false)) > 0 {
			return
		}
		written, err := json.Marshal(first)
		if err != nil {
			t.Fatal(err)
		}
		wrong := decodeConfig(written, &again, false)
		if diff := cmp.Diff(first, again); len(wrong) > 0 || diff != "" {
			t.Errorf("%q is accepted, and as %s: %v\n%s", data, written, wrong, diff)
		}
	})
}

// FuzzProviderID asserts that a provider ID that is understood is the one of its instance, and that another says nothing.
func FuzzProviderID(f *testing.F) {
	for _, id := range []string{"sim://i-1", "sim://", "sim:///zone/i-1", "metal://n1", "", "sim://a b", "SIM://i-1", "sim://i-1?x", "sim://\x00", "sim://é"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		instance, err := ParseProviderID(id)
		var terminal *provider.TerminalError
		switch {
		case err == nil && (instance == "" || ProviderID(instance) != id):
			t.Errorf("%q is %q", id, instance)
		case err != nil && (instance != "" || !errors.As(err, &terminal) || errors.Is(err, provider.ErrInstanceNotFound)):
			t.Errorf("%q: %q, %v", id, instance, err)
		}
	})
}
