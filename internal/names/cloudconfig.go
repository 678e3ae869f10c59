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

const (
	// RefusalInterval is how often a replica repeats the event of a refusal that lasts.
	RefusalInterval = 5 * time.Minute
	// RefusalLifetime is how long such an event counts: a replica that has ended withdraws nothing.
	RefusalLifetime = 2*RefusalInterval + time.Minute
)
