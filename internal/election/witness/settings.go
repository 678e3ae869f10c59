package witness

import (
	"encoding/json"
	"fmt"
	"time"
)

// variable is the environment variable that makes a process a witness. Its value is the settings.
const variable = "MOORING_LEADER_ELECTION_WITNESS"

// The files that a witness inherits.
const (
	parentFile = 3 + iota // a pidfd of its parent
	recordFile            // what the parent leaves
)

// Settings say what a witness is to release, and how it reaches the API server.
type Settings struct {
	// Kubeconfig and Master are the values of --kubeconfig and --master. With both empty, the ServiceAccount of the Pod is used.
	Kubeconfig, Master string
	// Leases are those that the manager holds or will seek.
	Leases []Lease
	// Duration is that of the leases: after it, there is nothing to release.
	Duration time.Duration
}

// Lease is a Lease and who leads by it.
type Lease struct {
	Namespace, Name string
	// Identity is the holder for whom the lease may be released. No other process has it.
	Identity string
}

// String returns the Lease as logs show it.
func (l Lease) String() string { return l.Namespace + "/" + l.Name }

// encode returns the settings as an environment variable.
func (s Settings) encode() (string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("settings of the witness: %w", err)
	}
	return variable + "=" + string(text), nil
}

// decode returns the settings that are the value of the variable.
func decode(text string) (Settings, error) {
	var s Settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("settings of the witness in %s: %w", variable, err)
	}
	return s, nil
}
