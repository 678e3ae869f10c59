package power

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// maxHeader is how much is read of the header of an answer; of other answers of HTTP than the final one as well.
const maxHeader = 64 << 10

// tlsClient is an HTTP client for one Redfish service. It is made anew when the file of certificates changes.
type tlsClient struct {
	config config.Redfish
	client *http.Client
	ca     []byte
}

// get returns the client, by the certificates as they are now.
func (t *tlsClient) get() (*http.Client, error) {
	var ca []byte
	if t.config.CAFile != "" {
		var err error
		if ca, err = os.ReadFile(t.config.CAFile); err != nil {
			return nil, fmt.Errorf("the certificates that the service's is verified with: %w", err)
		}
	}
	if t.client != nil && bytes.Equal(ca, t.ca) {
		return t.client, nil
	}
	verify := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: t.config.InsecureSkipVerify}
	if t.config.LegacyTLS {
		verify.MinVersion = tls.VersionTLS10
		for _, suite := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
			verify.CipherSuites = append(verify.CipherSuites, suite.ID)
		}
	}
	if t.config.CAFile != "" {
		verify.RootCAs = x509.NewCertPool()
		if !verify.RootCAs.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("%s holds no PEM certificate", t.config.CAFile)
		}
	}
	t.close()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // management networks are not reached by the proxy that a pod may have for the Internet
	transport.TLSClientConfig = verify
	transport.MaxIdleConns = 1
	transport.MaxResponseHeaderBytes = maxHeader
	t.client, t.ca = &http.Client{Transport: transport, CheckRedirect: stayThere}, ca
	return t.client, nil
}

// stayThere follows redirects within a service only, for example from a path to the same with a slash: requests carry a token, and
// the next host is not the one that was verified.
func stayThere(request *http.Request, via []*http.Request) error {
	first := via[0].URL
	if len(via) > 3 || request.URL.Host != first.Host || request.URL.Scheme != first.Scheme {
		return errors.New("the service redirects to another one, or too often")
	}
	return nil
}

// mismatches are how errors end by which the two sides have no version or cipher suite in common. They have no types.
var mismatches = []string{
	"remote error: tls: handshake failure", "remote error: tls: protocol version not supported", "remote error: tls: insufficient security level",
	"tls: server selected unsupported protocol version", "tls: server chose an unconfigured cipher suite",
}

// explained adds to an error what to do about the TLS of old firmware.
func (t *tlsClient) explained(err error) error {
	text := err.Error()
	switch {
	case strings.Contains(text, "x509: negative serial number"): // no setting of a connection allows it
		return fmt.Errorf("%w; make a new certificate on the management controller, or set GODEBUG=x509negativeserial=1 in the environment of the manager", err)
	case t.config.LegacyTLS:
		return err
	case slices.ContainsFunc(mismatches, func(mismatch string) bool { return strings.Contains(text, mismatch) }):
		return fmt.Errorf("%w; if the service knows old TLS only, set legacyTLS of its redfish", err)
	}
	return err
}

// close closes idle connections.
func (t *tlsClient) close() {
	if t.client != nil {
		t.client.CloseIdleConnections()
	}
}
