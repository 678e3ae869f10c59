package provider

// Limits are what an account of the cloud bears of calls, all those of the provider together. What is not known is zero, and is
// found out from the cloud's refusals.
type Limits struct {
	// CallsPerSecond is how many calls a second the account bears for long: the rate at which its quota fills. What --cloud-api-qps
	// says goes before.
	CallsPerSecond float64
	// Burst is how many calls it bears at once after a pause. Zero means those of one second. It counts with CallsPerSecond only.
	Burst int
	// InFlight is how many calls may be under way at once. What --cloud-api-max-in-flight says goes before.
	InFlight int
}
