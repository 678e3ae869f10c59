package localclustertest

import (
	"net/url"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/mooring-ccm/mooring/dev/relay"
)

// Proxy forwards connections to an API server, until it is paused: then they stay open, and nothing passes.
type Proxy struct {
	*relay.Relay
	// Config reaches the API server by way of the proxy.
	Config *rest.Config
}

// NewProxy returns a proxy for the API server of a config. It ends with the test.
func NewProxy(t testing.TB, target *rest.Config) *Proxy {
	t.Helper()
	address, err := url.Parse(target.Host)
	if err != nil {
		t.Fatal(err)
	}
	started, err := relay.Start(address.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := started.Close(); err != nil {
			t.Error(err)
		}
	})
	p := &Proxy{Relay: started, Config: rest.CopyConfig(target)}
	p.Config.Host = "https://" + started.Address()
	return p
}
