// Package deploy holds the manifests that Mooring ships, so tests and the demo run it with what operators apply.
package deploy

import _ "embed"

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

// ServingCertificateRBAC is what takes the place of RBAC with --controllers=*,kubelet-serving-certificate.
//
//go:embed manifests/rbac-kubelet-serving-certificate.yaml
var ServingCertificateRBAC []byte

// DryRunRBAC is what takes the place of RBAC with --dry-run: nothing may be written.
//
//go:embed manifests/rbac-dry-run.yaml
var DryRunRBAC []byte

// AdmissionPolicy keeps kubelets from writing annotations of mooring.dev on Nodes.
//
//go:embed manifests/admission-policy.yaml
var AdmissionPolicy []byte
