package harness

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
)

func TestCommandLine(t *testing.T) {
	m := Manager{
		Name: "first", Dir: "/logs", Path: "/bin/ccm", Inside: []string{"ip", "netns", "exec", "host"}, Kubeconfig: "/k", CloudConfig: "/c", Port: 1234,
		Flags: []string{"--secure-port=0"},
	}
	command, err := m.Command(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"netns", "exec", "host", "/bin/ccm", "--kubeconfig=/k", "--authentication-kubeconfig=/k", "--authorization-kubeconfig=/k",
		"--bind-address=127.0.0.1", "--secure-port=1234", "--cert-dir=/logs/first-serving", "--cloud-config=/c", "--secure-port=0",
	}
	if command.Path != "ip" || !slices.Equal(command.Args, want) {
		t.Errorf("got %s %q\nwant ip %q", command.Path, command.Args, want)
	}
	m.Certs, m.CloudConfig = "/certs", ""
	if m.Certificate() != "/certs/cloud-controller-manager.crt" || slices.ContainsFunc(m.Args(), func(arg string) bool {
		return strings.HasPrefix(arg, "--cloud-config")
	}) {
		t.Errorf("%s, %q", m.Certificate(), m.Args())
	}
}

func TestIdentity(t *testing.T) {
	more := Mooring.With([]byte("a"), []byte("b"))
	if len(more.Rights) != 3 || len(Mooring.Rights) != 1 || more.User() != "system:serviceaccount:kube-system:cloud-controller-manager" {
		t.Errorf("%d rights, %d before; %s", len(more.Rights), len(Mooring.Rights), more.User())
	}
}

func TestWhat(t *testing.T) {
	for want, event := range map[string]auditv1.Event{
		"patch nodes/status": {Verb: "patch", ObjectRef: &auditv1.ObjectReference{Resource: "nodes", Subresource: "status", Name: "n"}},
		"list nodes":         {Verb: "list", ObjectRef: &auditv1.ObjectReference{Resource: "nodes"}},
		"get /readyz":        {Verb: "get", RequestURI: "/readyz?verbose"},
	} {
		if got := What(event); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestEndpoint holds the client to what it shows and trusts. The certificate of the server is one for example.com, and not for localhost.
func TestEndpoint(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = w.Write([]byte(r.Method + " " + r.URL.String()))
	}))
	defer server.Close()
	e := Endpoint{Address: server.Listener.Addr().String()}
	if body, err := e.OK(t.Context(), "/metrics?a=b", "secret"); body != "GET /metrics?a=b" || err != nil {
		t.Errorf("got %q, %v", body, err)
	}
	if code, _, err := e.Get(t.Context(), "/metrics", ""); code != http.StatusForbidden || err != nil {
		t.Errorf("got %d, %v", code, err)
	}
	if _, err := e.OK(t.Context(), "/metrics", ""); err == nil || !strings.Contains(err.Error(), "/metrics is answered with 403: GET /metrics") {
		t.Errorf("got %v", err)
	}
	e.Certificate = filepath.Join(t.TempDir(), "tls.crt")
	if _, err := e.OK(t.Context(), "/", "secret"); !os.IsNotExist(err) {
		t.Errorf("without the file of the certificate: %v", err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(e.Certificate, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := e.OK(t.Context(), "/", "secret"); err == nil || !strings.Contains(err.Error(), "not localhost") {
		t.Errorf("a certificate that is none for localhost: %v", err)
	}
}

func TestEndpointShowsItsClientCertificate(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(r.TLS.PeerCertificates[0].Raw)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	shown := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(shown.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	e := Endpoint{Address: server.Listener.Addr().String(), As: &rest.Config{TLSClientConfig: rest.TLSClientConfig{
		CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: shown.Certificate[0]}),
		KeyData:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}}}
	if body, err := e.OK(t.Context(), "/", ""); body != string(shown.Certificate[0]) || err != nil {
		t.Errorf("the server saw another certificate, or: %v", err)
	}
}
