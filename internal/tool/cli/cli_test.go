package cli

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/spf13/cobra"
)

func TestExitCodes(t *testing.T) {
	failure := errors.New("it failed")
	for name, c := range map[string]struct {
		run  func(cmd *cobra.Command) error
		code int
		want string
	}{
		"success": {func(*cobra.Command) error { return nil }, ExitOK, ""},
		"failure": {func(*cobra.Command) error { return failure }, ExitFailed, "harbor: it failed\n"},
		"usage": {
			func(cmd *cobra.Command) error { return Usage(cmd, failure) }, ExitUsage, "harbor: it failed\nSee 'harbor try --help'\n",
		},
		"interrupted": {
			func(*cobra.Command) error { return fmt.Errorf("trying: %w", Interrupted(failure)) }, ExitInterrupted,
			"harbor: trying: it failed\n",
		},
	} {
		root := NewRoot("harbor", "Short", "Long")
		root.AddCommand(&cobra.Command{Use: "try", RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) }})
		root.SetArgs([]string{"try"})
		var stderr bytes.Buffer
		if code := Execute(t.Context(), root, &stderr); code != c.code || stderr.String() != c.want {
			t.Errorf("%s: exit code %d, want %d; it says %q, want %q", name, code, c.code, stderr.String(), c.want)
		}
	}
}
