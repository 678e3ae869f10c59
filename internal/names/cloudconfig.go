package names

import "time"

// The reasons of events about the cloud config. The events are on the ConfigMap or Secret of --cloud-config-object, or on the Lease of the
// election if the cloud config is a file. Each replica writes its own, under its host name.
const (
	// ReasonCloudConfigRefused says that the cloud config has changed, and that a replica keeps the one before.
	ReasonCloudConfigRefused = "CloudConfigRefused"
	// ReasonCloudConfigTaken says that a replica uses a changed cloud config.
	ReasonCloudConfigTaken = "CloudConfigTaken"
)

// RefusalLifetime is how long the event of a refusal counts: a replica that has ended withdraws nothing. One that lives repeats it each third of
// that.
const RefusalLifetime = 15 * time.Minute
