package cloudsim

import (
	"errors"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// DefaultPageSize is the most elements of a page when Knobs.PageSize is zero.
const DefaultPageSize = 100

// TokenSource returns the token that a request must carry. It is called for every request; an error refuses the request.
type TokenSource func() (string, error)

// StaticToken is a token that never changes.
func StaticToken(token string) TokenSource {
	return func() (string, error) { return token, nil }
}

// TokenFile is a token in a file, which may change while the cloud runs.
func TokenFile(path string) TokenSource { return api.TokenFile(path) }

// Options say how a cloud is made.
type Options struct {
	// StateFile is where the cloud keeps what it holds. It is created if it does not exist; one process at a time may have
	// it open. Required.
	StateFile string
	// Token is what clients must send. Required.
	Token TokenSource
	// AdminToken is what clients of the admin API must send; nil switches that API off.
	AdminToken TokenSource
	// Seed is what a new state file starts with; nil means DefaultSeed(0). It is ignored when the state file has a state.
	Seed *api.Seed
	// Knobs are how the cloud behaves at first.
	Knobs api.Knobs
	// Clock is where the cloud gets the time from; nil means the clock of the system.
	Clock clock.Clock
	// Logger gets a line for each change. The zero value discards them.
	Logger logr.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.StateFile == "" {
		return o, errors.New("simulated cloud: a state file is required")
	}
	if o.Token == nil {
		return o, errors.New("simulated cloud: a token is required")
	}
	if o.Seed == nil {
		o.Seed = DefaultSeed(0)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger.GetSink() == nil {
		o.Logger = logr.Discard()
	}
	return o, nil
}

// lockTimeout is how long Open waits for another process that has the state file open.
const lockTimeout = 2 * time.Second
