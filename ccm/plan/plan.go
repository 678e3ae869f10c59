// Package plan holds what a manager answers at /plan under --dry-run: what it would do, by object. It is the wire format of that
// page, for the manager that serves it and for the programs that read it.
package plan

import "time"

// Path is where the secure port of a manager under --dry-run serves its Plan, as JSON.
const Path = "/plan"

// Plan is what a manager under --dry-run would do.
type Plan struct {
	// Provider is the name of the cloud provider, and Cluster the name of the cluster.
	Provider string `json:"provider"`
	Cluster  string `json:"cluster"`
	// Warning says what of the provider the dry run cannot hold back, empty if nothing is known of the kind.
	Warning string `json:"warning,omitempty"`
	// Since is when the dry run began. Controllers that confirm what they see take some periods to come to a plan.
	Since time.Time `json:"since"`
	// Intents are what would be done, by object.
	Intents []Intent `json:"intents"`
	// Compared says of how many load balancers was found that nothing differs. Nil: of none.
	Compared *Compared `json:"compared,omitempty"`
}

// Where an Intent would take effect.
const (
	Kubernetes = "kubernetes"
	TheCloud   = "cloud"
)

// Effect is what an intent would do to its object.
type Effect string

// The effects. To ensure something that exists is to change it, even if nothing about it turns out to differ, unless it is only ensured
// because a process begins.
const (
	Creates Effect = "create"
	Alters  Effect = "change"
	Deletes Effect = "delete"
)

// Intent is one thing that a controller would do.
type Intent struct {
	// Controller would do it.
	Controller string `json:"controller"`
	// Where is Kubernetes or TheCloud.
	Where string `json:"where"`
	// Verb is what would be done: "patch", "delete", "EnsureLoadBalancer".
	Verb string `json:"verb"`
	// Effect is what that would do to the object in Kubernetes, or to what there is for it in the cloud.
	Effect Effect `json:"effect"`
	// Kind, Namespace and Name are the object that it is about; of a route the destination is the name.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Why is the reason in words, as in the log.
	Why string `json:"why,omitempty"`
	// Changes are what would differ afterwards.
	Changes []Change `json:"changes,omitempty"`
	// First and Last are when it was first and last intended.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// Change is one field that would differ. From is nil for one that is not there, To for one that would not be.
type Change struct {
	Path string `json:"path"`
	From any    `json:"from,omitempty"`
	To   any    `json:"to,omitempty"`
}

// Compared says of how many load balancers was found that nothing differs, and what of them was not compared.
type Compared struct {
	LoadBalancers int      `json:"loadBalancers"`
	NotCompared   []string `json:"notCompared"`
}
