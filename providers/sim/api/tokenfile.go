package api

import (
	"fmt"
	"os"
	"strings"
)

// TokenFile returns a function that reads a bearer token from a file, at every call, so a rotated token is used at once and
// nothing has to be restarted. Reading a small file costs some microseconds, less than watching it. White space around the token
// is ignored.
func TokenFile(path string) func() (string, error) {
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
