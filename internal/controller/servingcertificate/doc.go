// Package servingcertificate approves the serving certificates that kubelets ask for, if the cloud reports what they ask for.
//
// A kubelet with serverTLSBootstrap asks by a CertificateSigningRequest for a certificate of its addresses. kube-controller-manager signs
// what is approved, and approves nothing of this signer: what addresses a machine has, only the cloud knows.
//
// Data flows one way, for all requests of one requester at once. The watches (watch.go) put requesters into the queue; reconcile.go reads
// their requests (desired.go) and has the cloud asked about the instance, without waiting for it (answers.go); plan.go decides; apply.go
// approves or denies.
//
// See ADR 62.
package servingcertificate
