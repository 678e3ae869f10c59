package power

import (
	"fmt"
	"os"
	"strings"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// login is a user name and a password.
type login struct{ username, password string }

// readLogin reads them from their files. They are read for every question: that costs some microseconds, less than watching them,
// and a change counts at once.
func readLogin(from *config.Credentials) (login, error) {
	username := from.Username
	if username == "" {
		var err error
		if username, err = readSecret(from.UsernameFile); err != nil {
			return login{}, fmt.Errorf("the user name for the BMC: %w", err)
		}
	}
	password, err := readSecret(from.PasswordFile)
	if err != nil {
		return login{}, fmt.Errorf("the password for the BMC: %w", err)
	}
	return login{username, password}, nil
}

func readSecret(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(data))
	if secret == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return secret, nil
}
