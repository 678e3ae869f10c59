// Package tokenfile reads a bearer token from a file for every call that needs it, so that a rotated token is used at once
// and nothing has to be restarted or told.
package tokenfile

import (
	"fmt"
	"os"
	"strings"
)

// Source returns a function that reads the token in the file. Reading a small file costs some microseconds, less than
// watching it and never late; white space around the token is ignored.
func Source(path string) func() (string, error) {
	return func() (string, error) {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("token file: %w", err)
		}
		token := strings.TrimSpace(string(data))
		if token == "" {
			return "", fmt.Errorf("token file %s: is empty", path)
		}
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return "", fmt.Errorf("token file %s: must hold one token of printable ASCII characters", path)
		}
		return token, nil
	}
}
