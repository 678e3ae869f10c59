package power

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// newTLSServer serves until the test ends and returns its URL.
func newTLSServer(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}
