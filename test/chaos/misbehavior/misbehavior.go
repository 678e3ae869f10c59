// Package misbehavior is what the simulated cloud of a chaos run and the plugin in the manager under test agree on: how a call is
// answered after which the plugin panics. It is the only thing that both sides know.
package misbehavior

// ProviderName is the name of the plugin, for --cloud-provider.
const ProviderName = "chaos"

// The HTTP statuses of a refusal after which the plugin misbehaves. Nobody else uses them.
const (
	// StatusPanic makes the plugin panic.
	StatusPanic = 598
	// StatusGoexit makes the plugin end the goroutine of the call.
	StatusGoexit = 597
)
