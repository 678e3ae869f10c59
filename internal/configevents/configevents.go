// Package configevents names the events about the cloud config: the manager writes them, and the tool reads them.
package configevents

import "time"

// The reasons. The events are on the ConfigMap or Secret of --cloud-config-object, and on the Lease of the election if the cloud config is a
// file. Each replica writes its own, under its host name.
const (
	// ReasonRefused says that the cloud config has changed, and that a replica goes on with the one before.
	ReasonRefused = "CloudConfigRefused"
	// ReasonTaken says that a replica has taken a changed cloud config.
	ReasonTaken = "CloudConfigTaken"
)

const (
	// Repeat is how often a refusal that lasts is written again.
	Repeat = 5 * time.Minute
	// Fresh is how long an event says what is so: a replica that is gone does not take anything back.
	Fresh = 2*Repeat + time.Minute
)
