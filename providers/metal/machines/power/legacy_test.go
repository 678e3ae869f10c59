package power

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/bmc/redfishsim"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// A service that knows the TLS of old firmware only is read with legacyTLS, and without it the error names that.
func TestLegacyTLS(t *testing.T) {
	for name, old := range map[string]*tls.Config{
		"TLS 1.0":          {MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10},
		"RSA key exchange": {MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA}},
	} {
		t.Run(name, func(t *testing.T) {
			simulated := redfishsim.New("root", secret)
			server := httptest.NewUnstartedServer(simulated)
			server.TLS = old
			server.Config.ErrorLog = nil
			server.StartTLS()
			t.Cleanup(server.Close)
			service := config.Redfish{Endpoint: server.URL, Auth: config.RedfishBasic, InsecureSkipVerify: true}
			get := func() error {
				client := tlsClient{config: service}
				defer client.close()
				made, err := client.get()
				if err != nil {
					return err
				}
				response, err := made.Get(server.URL + "/redfish/v1")
				if err != nil {
					return client.explained(err)
				}
				return errors.Join(response.Body.Close())
			}
			if err := get(); err == nil || !strings.Contains(err.Error(), "set legacyTLS of its redfish") {
				t.Errorf("without legacyTLS: %v", err)
			}
			service.LegacyTLS = true
			if err := get(); err != nil {
				t.Errorf("with legacyTLS: %v", err)
			}
		})
	}
	client := tlsClient{}
	err := client.explained(errors.New("tls: failed to parse certificate from server: x509: negative serial number"))
	if !strings.Contains(err.Error(), "GODEBUG=x509negativeserial=1") {
		t.Error(err)
	}
	if err := client.explained(http.ErrServerClosed); !errors.Is(err, http.ErrServerClosed) || strings.Contains(err.Error(), "TLS") {
		t.Errorf("an error that is none of TLS says %v", err)
	}
}
