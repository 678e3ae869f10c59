package ccm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTracingConfiguration(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"
	for name, test := range map[string]struct{ content, want string }{
		"complete":     {head + "endpoint: localhost:4317\nsamplingRatePerMillion: 1000000\n", ""},
		"empty":        {head, ""},
		"a rate above": {head + "samplingRatePerMillion: 1000001\n", "samplingRatePerMillion"},
		"another kind": {"apiVersion: v1\nkind: Pod\n", "--tracing-config-file"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "tracing.yaml")
			if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			configuration, err := readTracing(file)
			if test.want == "" {
				if err != nil || configuration == nil {
					t.Fatalf("configuration %v, error %v", configuration, err)
				}
				_, stop, err := (&config{tracing: configuration}).newTracing(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				stop(t.Context())
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want it to name %s", err, test.want)
			}
		})
	}
	if _, err := readTracing("does/not/exist"); err == nil || !strings.Contains(err.Error(), "--tracing-config-file") {
		t.Errorf("a file that is not there: error = %v", err)
	}
	if configuration, err := readTracing(""); configuration != nil || err != nil {
		t.Errorf("without a file: %v, %v", configuration, err)
	}
}
