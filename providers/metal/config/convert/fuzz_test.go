package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// FuzzMetalLB asserts that a conversion is the same each time, that its config is valid or a note says what is not, that the notes can
// be shown in a terminal, and that neither grows beyond what was read.
func FuzzMetalLB(f *testing.F) {
	inputs, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, input := range inputs {
		text, err := os.ReadFile(input)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	const pool = "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: a, namespace: m}\n"
	for _, text := range []string{
		"", "a: b: c\n", "- 1\n", "null\n---\nnull\n", pool + "spec: {addresses: [1, 2]}\n", pool + "spec: {addresses: ['', 0.0.0.0/0, x]}\n",
		pool + "spec: null\n", pool + "\"\\x1b\": 1\nspec: {\"a\\nb\": 2}\n", "kind: List\napiVersion: v1\nitems: [null, 1, {kind: List, items: [{}]}]\n",
		strings.Replace(pool, "name: a", "name: 'É \\n'", 1) + "spec: {addresses: [192.0.2.0/24]}\n", "a: &a [*a]\n",
		"apiVersion: metallb.io/v1beta2\nkind: BGPPeer\nmetadata: {name: p}\nspec: {myASN: -1, peerASN: 99999999999, peerAddress: x, holdTime: 1}\n",
	} {
		f.Add(text)
	}
	f.Add("\xff\xfe" + pool)
	f.Add(pool + "...\n--- " + pool)
	f.Fuzz(func(t *testing.T, text string) {
		result, err := MetalLB(strings.NewReader(text))
		if err != nil {
			if !utf8.ValidString(err.Error()) {
				t.Errorf("%q", err.Error())
			}
			return
		}
		written, err := result.YAML()
		if err != nil {
			t.Fatal(err)
		}
		var notes strings.Builder
		for _, note := range result.Notes {
			line := note.String()
			if strings.IndexFunc(line, unicode.IsControl) >= 0 || !utf8.ValidString(line) {
				t.Errorf("a note cannot be shown: %q", line)
			}
			notes.WriteString(line + "\n")
		}
		for _, wrong := range config.Examine(written, "/").Errors {
			if !strings.Contains(notes.String(), wrong.Detail) {
				t.Errorf("the config is invalid, and no note says it: %v\n%s", wrong, notes.String())
			}
		}
		if len(written)+notes.Len() > 100*len(text)+100_000 {
			t.Errorf("%d bytes make a config of %d and notes of %d", len(text), len(written), notes.Len())
		}
		again, err := MetalLB(strings.NewReader(text))
		if second, secondErr := again.YAML(); err != nil || secondErr != nil || string(second) != string(written) {
			t.Errorf("another config the second time: %v, %v", err, secondErr)
		}
	})
}
