// Package redfishtest serves a simulated Redfish service inside a test.
package redfishtest

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/mooring-ccm/mooring/dev/bmc/redfishsim"
)

// Start serves a service by HTTPS on loopback until the test ends. It returns its URL and a file with the certificate that it is
// verified with.
func Start(t *testing.T, service *redfishsim.Service) (url, caFile string) {
	t.Helper()
	server := httptest.NewTLSServer(service)
	t.Cleanup(server.Close)
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(caFile, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	return server.URL, caFile
}
