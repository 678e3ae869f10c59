// Package deploy holds the manifests that Mooring ships, so that tests and the demo run it with what operators apply.
package deploy

import _ "embed"

// RBAC is the ServiceAccount kube-system/cloud-controller-manager with the least rights that the controllers need, as a
// stream of YAML documents.
//
//go:embed rbac.yaml
var RBAC []byte

// SeparateIdentitiesRBAC is what --use-service-account-credentials takes besides RBAC.
//
//go:embed manifests/rbac-separate-identities.yaml
var SeparateIdentitiesRBAC []byte

// MetalRBAC is RBAC with what the provider metal needs besides.
//
//go:embed manifests/rbac-metal.yaml
var MetalRBAC []byte
