package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Knobs change how the cloud behaves while it runs. They are of the process: a restart takes them from its flags again.
type Knobs struct {
	// Latency is added to every call, and a random part of LatencyJitter on top.
	Latency       metav1.Duration `json:"latency,omitzero"`
	LatencyJitter metav1.Duration `json:"latencyJitter,omitzero"`
	// PageSize is the most elements of a page, 1 to 10,000.
	PageSize int `json:"pageSize,omitempty"`
	// Quota bounds the calls of all clients together; nil is no bound. Calls of the admin API do not count.
	Quota *Quota `json:"quota,omitempty"`
	// ListLag is how long lists lag behind writes. A get is never behind.
	ListLag metav1.Duration `json:"listLag,omitzero"`
	// MaxRoutes is the most routes that a cluster may have; zero is no bound.
	MaxRoutes int `json:"maxRoutes,omitempty"`
	// InstanceDelay and LoadBalancerDelay are how long a created one stays pending.
	InstanceDelay     metav1.Duration `json:"instanceDelay,omitzero"`
	LoadBalancerDelay metav1.Duration `json:"loadBalancerDelay,omitzero"`
}

// Quota is a token bucket.
type Quota struct {
	// RequestsPerSecond is how fast the bucket fills, greater than 0.
	RequestsPerSecond float64 `json:"requestsPerSecond"`
	// Burst is how much the bucket holds, at least 1.
	Burst int `json:"burst"`
}

// FaultMode is how a call goes wrong.
type FaultMode string

// The modes of a fault. With FaultStatus and FaultHang the call has no effect; with the others it has, and the answer lies.
const (
	// FaultStatus answers Fault.Status instead of doing the call.
	FaultStatus FaultMode = "status"
	// FaultEmpty answers a well-formed empty list; to a call that is no list, an empty JSON object.
	FaultEmpty FaultMode = "empty"
	// FaultHang answers nothing until the client gives up, the faults are cleared or the cloud stops.
	FaultHang FaultMode = "hang"
	// FaultTruncate cuts the answer in its middle and closes the connection.
	FaultTruncate FaultMode = "truncate"
	// FaultMalformed answers something that is not JSON, with status 200.
	FaultMalformed FaultMode = "malformed"
	// FaultShortList leaves out the token of the next page, so a list seems to end early.
	FaultShortList FaultMode = "shortList"
	// FaultAsync accepts a creation that then ends in state error.
	FaultAsync FaultMode = "async"
)

// Fault makes the next calls of an operation fail. Of several faults that match a call, the oldest is used.
type Fault struct {
	// Operation is the operation that fails, or AnyOperation.
	Operation Operation `json:"operation"`
	// Mode is how it fails.
	Mode FaultMode `json:"mode"`
	// Status is the HTTP status of FaultStatus, 400 to 599.
	Status int `json:"status,omitempty"`
	// RetryAfter is sent with FaultStatus, in whole seconds rounded up.
	RetryAfter metav1.Duration `json:"retryAfter,omitzero"`
	// Skip is how many calls of the operation go well first: 1 makes the second page of a list fail.
	Skip int `json:"skip,omitempty"`
	// Count is how many calls fail after that, at least 1.
	Count int `json:"count"`
}

// Faults are the faults that are still to come.
type Faults struct {
	Items []Fault `json:"items"`
}

// CallCount is how often an operation was called, and how many of the calls were not served. A call is in Received and
// in at most one of the other fields.
type CallCount struct {
	// Received is every call, each page of a list included.
	Received int64 `json:"received"`
	// Unauthenticated is the calls with a wrong token.
	Unauthenticated int64 `json:"unauthenticated,omitempty"`
	// Throttled is the calls above the quota.
	Throttled int64 `json:"throttled,omitempty"`
	// Faulted is the calls that a Fault hit.
	Faulted int64 `json:"faulted,omitempty"`
	// Failed is the other calls that were answered with a status of 400 or more.
	Failed int64 `json:"failed,omitempty"`
}

// Served returns how many calls were answered as they should.
func (c CallCount) Served() int64 {
	return c.Received - c.Unauthenticated - c.Throttled - c.Faulted - c.Failed
}

// Counts are the calls since the start or the last reset. The admin API is not counted.
type Counts struct {
	// Operations has an entry for each operation that was called.
	Operations map[Operation]CallCount `json:"operations"`
	// MaxInFlight is the most calls that were being served at one time.
	MaxInFlight int `json:"maxInFlight"`
}

// Received returns how many calls of the given operations were received, of all operations when none is given.
func (c Counts) Received(operations ...Operation) int64 {
	var sum int64
	if len(operations) == 0 {
		for _, count := range c.Operations {
			sum += count.Received
		}
		return sum
	}
	for _, op := range operations {
		sum += c.Operations[op].Received
	}
	return sum
}
