package localclustertest

import (
	"net"
	"testing"
)

// FreePort returns a port of loopback on which nobody listens. Another process may take it before the caller does.
func FreePort(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	defer func() { _ = listener.Close() }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatalf("port of %s: %v", listener.Addr(), err)
	}
	return port
}
