// Package e2e is Kubernetes' own end-to-end tests, with the suites that touch a cloud controller manager. Their entry point is taken from
// Kubernetes' module when the tests are built.
package e2e

import (
	// Each suite registers its specs.
	_ "k8s.io/kubernetes/test/e2e/apps"
	_ "k8s.io/kubernetes/test/e2e/cloud"
	_ "k8s.io/kubernetes/test/e2e/network"
)
