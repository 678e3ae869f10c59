package harness

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"

	"k8s.io/client-go/rest"
)

// Endpoint is the secure port of a manager.
type Endpoint struct {
	// Address is "host:port".
	Address string
	// Certificate is the file of the certificate that it shows, which has to be one for localhost. Empty: any is trusted.
	Certificate string
	// As is the client certificate to present, such as the administrator's, which may read everything. Nil: none.
	As *rest.Config
}

// Get asks for a path, with a bearer token unless that is empty, and returns the status and the body of the answer.
func (e Endpoint) Get(ctx context.Context, path, token string) (code int, body string, err error) {
	return e.Do(ctx, http.MethodGet, path, token, nil)
}

// OK returns what a path is answered with, and an error if the status is another than 200.
func (e Endpoint) OK(ctx context.Context, path, token string) (body string, err error) {
	code, body, err := e.Get(ctx, path, token)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%s is answered with %d: %s", path, code, body)
	}
	return body, err
}

// Do is Get by another method and with a body.
func (e Endpoint) Do(ctx context.Context, method, path, token string, content io.Reader) (code int, body string, err error) {
	config, err := e.tls()
	if err != nil {
		return 0, "", err
	}
	request, err := http.NewRequestWithContext(ctx, method, "https://"+e.Address+path, content)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true} // nothing stays behind
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	return response.StatusCode, string(read), err
}

func (e Endpoint) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: "localhost", InsecureSkipVerify: e.Certificate == ""} //nolint:gosec // it signs itself
	if e.Certificate != "" {
		certificate, err := os.ReadFile(e.Certificate)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(certificate)
	}
	if e.As != nil {
		certificate, err := tls.X509KeyPair(e.As.CertData, e.As.KeyData)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}
