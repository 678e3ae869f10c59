package compare

import "context"

// Cloud is a stand-in of the cloud that a plugin uses.
type Cloud interface {
	// Observe returns what the cloud has seen and holds, at one moment.
	Observe(ctx context.Context) (Observation, error)
}

// Observation is what a cloud has seen and holds.
type Observation struct {
	// Calls are all calls so far, in the order in which the cloud worked on them.
	Calls []Call
	// State is what the cloud holds, as facts: "balancer/a/listener/80" is "TCP to 30080". Names that the cloud makes up
	// have to be the same for the same sequence of calls.
	State map[string]string
	// Problems are what the stand-in cannot answer: a call of an unknown kind, a parameter that it does not understand.
	// Any of them fails the scenario, because what follows would prove nothing.
	Problems []string
}

// Call is one call of the cloud.
type Call struct {
	// Action is the name of the call in the cloud's API.
	Action string
	// Change says what the call changed, or would have. It is empty for a call that only reads.
	Change string
	// Error is the code of a refusal. It is empty if the call was carried out.
	Error string
}

// Launch is what a program has to know to find its cloud.
type Launch struct {
	// Config is the content of the file that --cloud-config names.
	Config string
	// Env are environment variables as "NAME=value".
	Env []string
}
