package autoscaler

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/go-logr/logr"
)

// files are the files of the server's TLS, in PEM. All are required.
type files struct {
	// Certificate is what the server shows, with intermediates, and Key its private key.
	Certificate, Key string
	// ClientCA is the authority that the autoscaler's certificate has to be of. A client with a certificate of it may delete nodes.
	ClientCA string
}

// Check returns everything that is wrong with the files.
func (f files) Check() []error {
	_, err := f.read()
	var all interface{ Unwrap() []error }
	if errors.As(err, &all) {
		return all.Unwrap()
	}
	return nil
}

// contents are what the files hold.
type contents struct{ certificate, key, clientCA []byte }

func (c contents) equal(other contents) bool {
	return bytes.Equal(c.certificate, other.certificate) && bytes.Equal(c.key, other.key) && bytes.Equal(c.clientCA, other.clientCA)
}

// loaded is what is served.
type loaded struct {
	contents
	certificate tls.Certificate
	clientCA    *x509.CertPool
}

// read reads the files. The error joins everything that is wrong.
func (f files) read() (*loaded, error) {
	var wrong []error
	file := func(what, path string) []byte {
		content, err := os.ReadFile(path)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", what, err))
			return nil
		}
		return content
	}
	read := &loaded{contents: contents{file("certificate", f.Certificate), file("private key", f.Key), file("client CA", f.ClientCA)}, clientCA: x509.NewCertPool()}
	var err error
	if read.contents.certificate != nil && read.key != nil {
		if read.certificate, err = tls.X509KeyPair(read.contents.certificate, read.key); err != nil {
			wrong = append(wrong, fmt.Errorf("%s and %s are no certificate with its private key: %w", f.Certificate, f.Key, err))
		}
	}
	if read.contents.clientCA != nil && !read.clientCA.AppendCertsFromPEM(read.contents.clientCA) {
		wrong = append(wrong, fmt.Errorf("client CA: %s has no certificate in PEM", f.ClientCA))
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return read, nil
}

// certificates follow the files: they are read at each handshake, of which there is one for a connection. While they cannot be read, as when
// one of them was replaced and the other not yet, the last ones hold.
type certificates struct {
	files files
	log   logr.Logger

	mu      sync.Mutex
	current *loaded
	failing bool
}

func newCertificates(files files, log logr.Logger) (*certificates, error) {
	first, err := files.read()
	if err != nil {
		return nil, err
	}
	return &certificates{files: files, log: log, current: first}, nil
}

// config is the server's: it shows its certificate to those only that have one of the client CA.
func (c *certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			now := c.load()
			return &tls.Config{
				MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{now.certificate},
				ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: now.clientCA,
				SessionTicketsDisabled: true, // a resumed session would outlive the client's certificate
			}, nil
		},
	}
}

func (c *certificates) load() *loaded {
	now, err := c.files.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil && !c.failing:
		c.log.Error(err, "Could not reload the certificates; keeping the last ones")
	case err == nil && !now.equal(c.current.contents):
		c.log.Info("The certificates have changed")
	}
	c.failing = err != nil
	if err == nil {
		c.current = now
	}
	return c.current
}

// seal is a deletion.Sealer by the server's private key, which the manager alone has, on all replicas. Where it is replaced, what waits for its
// deletion has to be asked for again.
func (c *certificates) seal(text string) string {
	c.mu.Lock()
	key := sha256.Sum256(c.current.key)
	c.mu.Unlock()
	mac := hmac.New(sha256.New, key[:])
	_, _ = mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}
