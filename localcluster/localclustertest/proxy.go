package localclustertest

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// Proxy forwards connections to an API server, until it is paused: then they stay open, and nothing passes.
type Proxy struct {
	// Config is that of the API server, by way of the proxy.
	Config *rest.Config

	mu   sync.Mutex
	open chan struct{} // closed while bytes pass
}

// NewProxy returns a proxy for the API server of a config. It ends with the test.
func NewProxy(t testing.TB, target *rest.Config) *Proxy {
	t.Helper()
	address, err := url.Parse(target.Host)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Config: rest.CopyConfig(target), open: make(chan struct{})}
	close(p.open)
	p.Config.Host = fmt.Sprintf("https://%s", listener.Addr())
	var forwarding sync.WaitGroup
	var closers []io.Closer
	t.Cleanup(func() {
		p.Resume()
		_ = listener.Close()
		p.mu.Lock()
		for _, closer := range closers {
			_ = closer.Close()
		}
		p.mu.Unlock()
		forwarding.Wait()
	})
	forwarding.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", address.Host)
			if err != nil {
				_ = client.Close()
				continue
			}
			p.mu.Lock()
			closers = append(closers, client, server)
			p.mu.Unlock()
			forwarding.Go(func() { p.forward(client, server) })
			forwarding.Go(func() { p.forward(server, client) })
		}
	})
	return p
}

// forward copies what one side sends to the other, while the proxy is not paused.
func (p *Proxy) forward(from io.Reader, to io.WriteCloser) {
	defer func() { _ = to.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		count, err := from.Read(buffer)
		if err != nil {
			return
		}
		p.mu.Lock()
		open := p.open
		p.mu.Unlock()
		<-open
		if _, err := to.Write(buffer[:count]); err != nil {
			return
		}
	}
}

// Pause lets nothing pass until Resume.
func (p *Proxy) Pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = make(chan struct{})
}

// Resume lets everything pass that was held back.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
	default:
		close(p.open)
	}
}
