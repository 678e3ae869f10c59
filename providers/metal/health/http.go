package health

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// bodyLimit is how much of an answer is read so that its connection can be used again. kube-proxy says some 200 bytes.
const bodyLimit = 4 << 10

// httpAsker asks over HTTP and keeps one connection to each port, so that thousands of probes a second are as many packets and no
// handshakes. A node that dies leaves its connection silent, which is what is to be noticed.
type httpAsker struct{ transport *http.Transport }

func newHTTPAsker() *httpAsker {
	return &httpAsker{&http.Transport{
		DialContext:         (&net.Dialer{KeepAlive: -1}).DialContext, // the probes keep it alive
		DisableCompression:  true,
		MaxIdleConnsPerHost: 1,
		IdleConnTimeout:     2 * time.Minute, // longer than the longest interval
		ReadBufferSize:      1 << 10,
		WriteBufferSize:     512,
	}}
}

// ask asks for /healthz. If kube-proxy does not say that it is well, its /livez tells a node that is being removed from one that
// does not work (KEP-3836).
func (a *httpAsker) ask(ctx context.Context, at netip.AddrPort, kubeProxy bool, timeout time.Duration) answer {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	status, err := a.get(ctx, at, "/healthz")
	switch {
	case err != nil:
		return silent
	case status == http.StatusOK:
		return welcoming
	case !kubeProxy:
		return refusing
	}
	if status, err = a.get(ctx, at, "/livez"); err == nil && status == http.StatusOK {
		return leaving
	}
	return refusing
}

// get returns the status. It follows no redirect.
func (a *httpAsker) get(ctx context.Context, at netip.AddrPort, path string) (int, error) {
	request := &http.Request{
		Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: at.String(), Path: path}, Host: at.String(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"User-Agent": {"mooring"}},
	}
	response, err := a.transport.RoundTrip(request.WithContext(ctx))
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, bodyLimit))
	return response.StatusCode, err
}

func (a *httpAsker) close() { a.transport.CloseIdleConnections() }
