package config

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParse holds every text to: an answer or an error of printable lines, and no secret in it. Files are not opened.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", minimal, "[Global]\nuse-clouds\n", "[LoadBalancerClass \"a\"]\nsubnet-id=\"x\\\"y\"\n", "[Networking]\naddress-sort-order=10.0.0.0/8,::/0\n",
		"[BlockStorage]\nx=y\n", "[Global \"x\"]\npassword=p\n", "\ufeff[Metadata]\nrequest-timeout=1h\n", "[]\n", "[a\n", "a=b\n", "[Global]\nx=\"\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<16 {
			return
		}
		p := parse([]byte("[Global]\npassword=hunter2hunter2\n" + text))
		p.config.complete()
		errs := append(p.errs, p.config.validate()...)
		p.config.warn()
		for _, err := range errs {
			shown := err.Error()
			if !utf8.ValidString(shown) || strings.ContainsAny(shown, "\n\x00") || len(shown) > 4000 {
				t.Errorf("the error cannot be shown: %q", shown)
			}
			if strings.Contains(shown, "hunter2hunter2") {
				t.Errorf("the error shows the password: %q", shown)
			}
		}
	})
}
