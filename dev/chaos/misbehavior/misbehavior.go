// Package misbehavior is what the runner of a chaos run and the plugin in the manager under test agree on: how a call is answered after
// which the plugin panics, and which quirks of real plugins it has at the moment. It is the only thing that both sides know.
package misbehavior

import (
	"os"
	"slices"
	"strings"
)

// ProviderName is the name of the plugin, for --cloud-provider.
const ProviderName = "chaos"

// The HTTP statuses of a refusal after which the plugin misbehaves. No service uses them otherwise.
const (
	// StatusPanic makes the plugin panic.
	StatusPanic = 598
	// StatusGoexit makes the plugin end the goroutine of the call.
	StatusGoexit = 597
)

// The quirks of dev/docs/quirks.md that are code within a plugin.
const (
	// What it says of instances.
	AddressesTwice = "plugin-addresses-twice"
	NoIP           = "plugin-no-ip"
	BadType        = "plugin-bad-type"
	NoMetadata     = "plugin-no-metadata"
	Terse          = "plugin-terse"
	SchemeOnly     = "plugin-scheme-only"
	Namesakes      = "plugin-namesakes"
	Denies         = "plugin-denies"
	GoneByError    = "plugin-gone-by-error"
	GoneIsStopped  = "plugin-gone-is-stopped"
	Ghosts         = "plugin-ghosts"
	// What it does with load balancers.
	OtherStatus     = "plugin-other-status"
	NoBalancer      = "plugin-no-balancer"
	GoneUndeletable = "plugin-gone-undeletable"
	OtherNotFound   = "plugin-other-not-found"
	AskAgain        = "plugin-ask-again"
	EnsureFails     = "plugin-ensure-fails"
	// What it does in all calls.
	Untyped = "plugin-untyped"
	Words   = "plugin-words"
	Deaf    = "plugin-deaf"
)

// The environment variables of a manager. QuirksFile names the file with the quirks that the plugin has, and Singly, if it is not empty,
// has the plugin declare no lists, so the manager asks for one object after the other.
const (
	QuirksFile = "MOORING_CHAOS_QUIRKS"
	Singly     = "MOORING_CHAOS_SINGLY"
)

// WriteQuirks has all managers with that file have these quirks, and no others, from now on.
func WriteQuirks(file string, quirks []string) error {
	if err := os.WriteFile(file+".new", []byte(strings.Join(quirks, "\n")), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file) // atomic: a reader gets the old ones or the new ones
}

// Quirks are the quirks of a plugin at one moment.
type Quirks []string

// Has says whether a quirk is among them.
func (q Quirks) Has(quirk string) bool { return slices.Contains(q, quirk) }

// ReadQuirks returns the quirks that a plugin with that file has now. Without a file it has none.
func ReadQuirks(file string) Quirks {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.Split(string(content), "\n")
}
