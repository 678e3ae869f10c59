// Package requesttest makes requests for serving certificates as kubelets do, and forged ones, for the tests of what decides about them.
package requesttest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/url"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// Form is a request as a kubelet makes it, for tests to spoil.
type Form struct {
	Template x509.CertificateRequest
	Key      crypto.Signer
	Encoded  []byte // in place of what Template and Key give
	Object   certificatesv1.CertificateSigningRequest
}

// New returns what the kubelet of a node asks for.
func New(t testing.TB, node string, names []string, ips []string, spoil ...func(*Form)) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	f := Form{Key: key, Template: x509.CertificateRequest{
		Subject: pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:" + node}, DNSNames: names,
	}}
	for _, ip := range ips {
		f.Template.IPAddresses = append(f.Template.IPAddresses, net.ParseIP(ip))
	}
	f.Object.Spec = certificatesv1.CertificateSigningRequestSpec{
		SignerName: certificatesv1.KubeletServingSignerName, Username: "system:node:" + node, Groups: []string{"system:nodes", "system:authenticated"},
		Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
	}
	for _, change := range spoil {
		change(&f)
	}
	if f.Encoded == nil {
		der, err := x509.CreateCertificateRequest(rand.Reader, &f.Template, f.Key)
		if err != nil {
			t.Fatal(err)
		}
		f.Encoded = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
	f.Object.Spec.Request = f.Encoded
	return &f.Object
}

// RSAKey makes the key one of RSA.
func RSAKey(t testing.TB, bits int) func(*Form) {
	return func(f *Form) {
		t.Setenv("GODEBUG", "rsa1024min=0")
		key, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			t.Fatal(err)
		}
		f.Key = key
	}
}

// Ed25519Key makes the key one of Ed25519.
func Ed25519Key(f *Form) { _, f.Key, _ = ed25519.GenerateKey(rand.Reader) }

// Extension adds an extension to the extensions of the template.
func Extension(t testing.TB, id asn1.ObjectIdentifier, value any) func(*Form) {
	return func(f *Form) {
		encoded, err := asn1.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		f.Template.ExtraExtensions = append(f.Template.ExtraExtensions, pkix.Extension{Id: id, Value: encoded})
	}
}

// Usages are in place of those of kubelets.
func Usages(all ...certificatesv1.KeyUsage) func(*Form) {
	return func(f *Form) { f.Object.Spec.Usages = all }
}

// Subject changes the subject.
func Subject(change func(*pkix.Name)) func(*Form) {
	return func(f *Form) { change(&f.Template.Subject) }
}

// URI asks for a URI, too.
func URI(f *Form) {
	f.Template.URIs = []*url.URL{{Scheme: "https", Host: "kubernetes.default"}}
}
