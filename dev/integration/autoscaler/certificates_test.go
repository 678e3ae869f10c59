package autoscaler_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/must"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	file        string
}

// pair are files of a certificate and its key.
type pair struct{ certificate, key string }

func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	must.NoError(t, err)
	a := &authority{certificate: certificate, key: key, file: filepath.Join(dir, name+".crt")}
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

// sign writes a certificate and its key. It is good as a server on loopback and as a client.
func (a *authority) sign(t *testing.T, dir, name string) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.NoError(t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	must.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.certificate, &key.PublicKey, a.key)
	must.NoError(t, err)
	encoded, err := x509.MarshalECPrivateKey(key)
	must.NoError(t, err)
	written := pair{filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")}
	writePEM(t, written.certificate, "CERTIFICATE", der)
	writePEM(t, written.key, "EC PRIVATE KEY", encoded)
	return written
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	must.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}
