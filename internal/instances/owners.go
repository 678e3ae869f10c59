package instances

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// Owners knows whose nodes are. There is one in a manager. It is safe for concurrent use.
type Owners struct{ rules ownership.Rules }

// NewOwners returns owners by rules.
func NewOwners(rules ownership.Rules) *Owners { return &Owners{rules: rules} }

// Rules are those by which it is decided whose a node is.
func (o *Owners) Rules() ownership.Rules { return o.rules }

// Decide decides by the rules.
func (o *Owners) Decide(node *corev1.Node) ownership.Decision { return o.rules.Decide(node) }

// Ours reports whether a node is ours by Decide.
func (o *Owners) Ours(node *corev1.Node) bool { return o.Decide(node).Owner == ownership.Ours }
