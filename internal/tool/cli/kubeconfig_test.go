package cli

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestAKubeconfigThatDoesNotExistIsNamed(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "nope")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for name, test := range map[string]struct{ flag, environment string }{
		"by the flag":        {flag: missing},
		"by the environment": {environment: missing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", test.environment)
			_, err := (&Kubeconfig{File: test.flag}).Config()
			var unseen exitError
			if !errors.As(err, &unseen) || unseen.code != ExitUnseen || !strings.Contains(err.Error(), missing) || strings.Contains(err.Error(), "KUBERNETES_MASTER") {
				t.Errorf("the error is %v, want one that names the file", err)
			}
		})
	}
}
