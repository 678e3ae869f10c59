package ccm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/sleep"
)

// errCredentialsChanged ends the process: client-go does not read a kubeconfig again, and a process that starts anew does.
var errCredentialsChanged = errors.New("the API server refuses the credentials with which this process started, and the kubeconfig has others now")

// refusals knows since when the API server has answered each request of this process with 401 Unauthorized.
type refusals struct {
	mu    sync.Mutex
	since time.Time
}

// transport takes in the answers to requests. It is for rest.Config.Wrap.
func (r *refusals) transport(next http.RoundTripper) http.RoundTripper {
	return observed{next: next, refusals: r}
}

type observed struct {
	next     http.RoundTripper
	refusals *refusals
}

// RoundTrip implements http.RoundTripper.
func (o observed) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := o.next.RoundTrip(request)
	if err == nil {
		o.refusals.note(response.StatusCode == http.StatusUnauthorized)
	}
	return response, err
}

// WrappedRoundTripper lets the libraries find the transport itself.
func (o observed) WrappedRoundTripper() http.RoundTripper { return o.next }

func (r *refusals) note(refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !refused:
		r.since = time.Time{}
	case r.since.IsZero():
		r.since = time.Now()
	}
}

// lasting returns for how long requests have been refused, zero if that is not too long yet.
func (r *refusals) lasting() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if lasting := time.Since(r.since); !r.since.IsZero() && lasting >= patience {
		return lasting
	}
	return 0
}

// check is a check of /readyz: a replica that the API server refuses cannot take over.
func (r *refusals) check(*http.Request) error {
	if lasting := r.lasting(); lasting > 0 {
		return fmt.Errorf("the API server has refused the credentials of this process for %s: renew those of --kubeconfig", lasting.Round(time.Second))
	}
	return nil
}

// followCredentials waits until the API server has refused the credentials of this process for too long and connect returns others, and ends the
// process then.
func (a *assembly) followCredentials(ctx context.Context, connect func() (*rest.Config, error)) {
	var failures kit.FailureLog
	for sleep.For(ctx, retry) {
		if a.identity.refusals.lasting() == 0 {
			continue
		}
		now, err := connect()
		failures.Note(ctx, "Could not reload the kubeconfig after the API server rejected its credentials", err)
		if err == nil && !sameCredentials(a.config.kubeconfig, now) {
			a.fence.end(errCredentialsChanged)
			return
		}
	}
}

// sameCredentials compares what client-go reads once, at the start. It reads files of tokens and certificates again itself.
func sameCredentials(a, b *rest.Config) bool {
	if a.BearerTokenFile != "" && a.BearerTokenFile == b.BearerTokenFile {
		return true
	}
	return a.BearerToken == b.BearerToken && a.BearerTokenFile == b.BearerTokenFile && a.Username == b.Username && a.Password == b.Password &&
		bytes.Equal(a.CertData, b.CertData) && bytes.Equal(a.KeyData, b.KeyData) && a.CertFile == b.CertFile && a.KeyFile == b.KeyFile
}
