// Package deploy holds the manifests that Mooring ships, so tests and the demo run it with what operators apply.
package deploy

import (
	"bytes"
	_ "embed"
)

// RBAC is the ServiceAccount kube-system/cloud-controller-manager with the least rights that the controllers need, as a
// stream of YAML documents.
//
//go:embed rbac.yaml
var RBAC []byte

// SeparateIdentitiesRBAC is what takes the place of RBAC with --use-service-account-credentials and
// --service-account-prefix=cloud-controller-manager-: controllers act as ServiceAccounts of their own.
//
//go:embed manifests/rbac-separate-identities.yaml
var SeparateIdentitiesRBAC []byte

// ReferenceIdentitiesRBAC is what takes the place of RBAC with --use-service-account-credentials alone: controllers act as the
// ServiceAccounts of the reference, which kube-controller-manager uses too.
//
//go:embed manifests/rbac-reference-identities.yaml
var ReferenceIdentitiesRBAC []byte

// MetalRBAC is RBAC with what the provider metal needs besides.
//
//go:embed manifests/rbac-metal.yaml
var MetalRBAC []byte

// MetalLBRBAC is what --metal-config-source=metallb needs besides: a Role in the namespace of MetalLB's resources.
//
//go:embed manifests/rbac-metallb.yaml
var MetalLBRBAC []byte

// LoadBalancersOnlyRBAC is what takes the place of MetalRBAC with --controllers=service-lb-controller: nodes are only read.
//
//go:embed manifests/rbac-load-balancers-only.yaml
var LoadBalancersOnlyRBAC []byte

// ServingCertificateRBAC is what --controllers=*,kubelet-serving-certificate needs besides RBAC, or besides what takes its place: a ClusterRole
// with a name of its own.
//
//go:embed manifests/rbac-kubelet-serving-certificate.yaml
var ServingCertificateRBAC []byte

// With joins manifests into one stream of documents.
func With(manifests ...[]byte) []byte { return bytes.Join(manifests, []byte("---\n")) }

// DryRunRBAC is what takes the place of RBAC with --dry-run: nothing may be written.
//
//go:embed manifests/rbac-dry-run.yaml
var DryRunRBAC []byte

// AdmissionPolicy keeps kubelets from writing annotations of mooring.dev on Nodes.
//
//go:embed manifests/admission-policy.yaml
var AdmissionPolicy []byte
