// Package extensions stands for Mooring's where a test is about building, and not about Kubernetes.
package extensions

import "github.com/mooring-ccm/mooring/ccm"

// All returns none.
func All() []ccm.Option { return nil }
