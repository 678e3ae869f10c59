package localcluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// certificateValidity is longer than any control plane of this package runs.
const certificateValidity = 30 * 24 * time.Hour

// authority is the certificate authority of one control plane. It signs the API server's certificate and the client
// certificates of users.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	certPEM     []byte
	keyPEM      []byte
}

// identity is a certificate with its key, PEM.
type identity struct {
	certPEM []byte
	keyPEM  []byte
}

func newAuthority() (*authority, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "mooring-localcluster"}, key)
	if err != nil {
		return nil, fmt.Errorf("create the certificate authority: %w", err)
	}
	return &authority{certificate: certificate, key: key, certPEM: certPEM(certificate.Raw), keyPEM: keyPEM}, nil
}

// client issues a certificate for a user with groups.
func (a *authority) client(user string, groups ...string) (identity, error) {
	return a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// server issues a certificate for a server that is reached by names and addresses.
func (a *authority) server(commonName string, names []string, addrs []netip.Addr) (identity, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: commonName},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    names,
	}
	for _, addr := range addrs {
		template.IPAddresses = append(template.IPAddresses, net.IP(addr.AsSlice()))
	}
	return a.sign(template)
}

func (a *authority) sign(template *x509.Certificate) (identity, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return identity{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return identity{}, fmt.Errorf("draw a serial number: %w", err)
	}
	template.SerialNumber = serial
	template.KeyUsage = x509.KeyUsageDigitalSignature
	// A clock that is set back a little must not make a new certificate invalid.
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(certificateValidity)
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return identity{}, fmt.Errorf("sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return identity{certPEM: certPEM(raw), keyPEM: keyPEM}, nil
}

func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate a key: %w", err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	return key, keyPEM, nil
}

func certPEM(raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: raw})
}
