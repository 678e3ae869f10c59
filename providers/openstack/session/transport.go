package session

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
)

// maxAnswer is how long an answer may be: a list of ten thousand servers with details has about 30 MB.
const maxAnswer = 128 << 20

// newTransport returns a transport that keeps connections, and ends answers that have no end.
func newTransport(verify *tls.Config) http.RoundTripper {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = verify.Clone()
	transport.MaxIdleConnsPerHost = transport.MaxIdleConns // a few hosts get all calls
	return bounded{transport}
}

type bounded struct{ *http.Transport }

// RoundTrip is http.RoundTripper.
func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.Transport.RoundTrip(request)
	if err == nil {
		response.Body = &boundedBody{ReadCloser: response.Body, left: maxAnswer}
	}
	return response, err
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

// Read ends with an error where an answer is too long: cut off, it might be taken for a short list.
func (b *boundedBody) Read(into []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the answer is longer than %d MiB", maxAnswer>>20)
	}
	n, err := b.ReadCloser.Read(into[:min(int64(len(into)), b.left)])
	b.left -= int64(n)
	return n, err
}
