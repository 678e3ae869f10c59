package ccm

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	certutil "k8s.io/client-go/util/cert"

	"github.com/mooring-ccm/mooring/dev/poll"
)

// lateCA is a client CA that is not known yet when a server begins to follow it, and is a moment later.
type lateCA struct {
	dynamiccertificates.CAContentProvider
	mu    sync.Mutex
	asked int
}

func (l *lateCA) CurrentCABundleContent() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked++; l.asked == 1 {
		return nil
	}
	return l.CAContentProvider.CurrentCABundleContent()
}

func (l *lateCA) AddListener(dynamiccertificates.Listener) {}

func (l *lateCA) RunOnce(context.Context) error { return nil }

func (l *lateCA) Run(context.Context, int) {}

// A client CA that becomes known while the secure port is being opened is in force, and nothing is read while it is written: the race
// detector watches.
func TestClientCAThatComesWhileThePortOpens(t *testing.T) {
	t.Parallel()
	certificate, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	serving, err := dynamiccertificates.NewStaticCertKeyContent("serving", certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := dynamiccertificates.NewStaticCAContent("authority", certificate)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		info := &server.SecureServingInfo{Listener: listener, Cert: serving, ClientCA: &lateCA{CAContentProvider: authority}}
		ended := make(chan struct{})
		release := holdCA(info)
		stopped, _, err := info.Serve(http.NotFoundHandler(), time.Second, ended)
		if err != nil {
			t.Fatal(err)
		}
		release()
		poll.Until(t, "the server asks for certificates of the authority", func(ctx context.Context) error {
			return poll.Holds(asksForCertificates(ctx, t, listener.Addr().String()))
		})
		close(ended)
		<-stopped
	}
}

// asksForCertificates reports whether a server names an authority whose certificates it takes from clients.
func asksForCertificates(ctx context.Context, t *testing.T, address string) bool {
	t.Helper()
	var authorities [][]byte
	dialer := &tls.Dialer{Config: &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // what the server asks for is looked at, not who it is
		GetClientCertificate: func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			authorities = slices.Clone(info.AcceptableCAs)
			return &tls.Certificate{}, nil
		},
	}}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_ = connection.Close()
	return len(authorities) > 0
}
