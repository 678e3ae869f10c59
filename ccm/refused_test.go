package ccm

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// answering is an API server that answers each request with a status.
type answering int

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(a), Body: http.NoBody}, nil
}

// ask sends a request through the transport of refusals.
func (r *refusals) ask(t *testing.T, status int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.transport(answering(status)).RoundTrip(request); err != nil {
		t.Fatal(err)
	}
}

func TestARefusedReplicaIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := &refusals{}
		refused.ask(t, http.StatusUnauthorized)
		if err := refused.check(nil); err != nil {
			t.Errorf("at the first refusal: %v", err)
		}
		time.Sleep(patience)
		refused.ask(t, http.StatusUnauthorized)
		if err := refused.check(nil); err == nil {
			t.Error("it is ready after a minute of refusals")
		}
		refused.ask(t, http.StatusForbidden) // who is forbidden something is known
		if err := refused.check(nil); err != nil {
			t.Errorf("after another answer: %v", err)
		}
	})
}

// TestARefusedReplicaEndsWhenItsKubeconfigChanges waits beside a kubeconfig that stays as it is, and then gets another token.
func TestARefusedReplicaEndsWhenItsKubeconfigChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var file atomic.Pointer[rest.Config]
		write := func(token string) { file.Store(&rest.Config{BearerToken: token}) }
		write("old")
		a := &assembly{config: &config{kubeconfig: file.Load()}, identity: identities{refusals: &refusals{}}, fence: newFence()}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			a.followCredentials(ctx, func() (*rest.Config, error) { return file.Load(), nil })
		}()
		write("new") // without a refusal another token is no reason to end
		time.Sleep(time.Hour)
		write("old")
		a.identity.refusals.ask(t, http.StatusUnauthorized)
		time.Sleep(time.Hour)
		if a.fence.leading.Err() != nil {
			t.Fatal("it ended although a restart would not help")
		}
		write("new")
		select {
		case <-ended:
		case <-time.After(time.Hour):
			t.Fatal("it still runs an hour after the kubeconfig got other credentials")
		}
		if err := context.Cause(a.fence.leading); !errors.Is(err, errCredentialsChanged) {
			t.Errorf("it ended with %v", err)
		}
	})
}

func TestSameCredentials(t *testing.T) {
	inFile := func(token string) *rest.Config { return &rest.Config{BearerToken: token, BearerTokenFile: "token"} }
	for name, test := range map[string]struct {
		a, b *rest.Config
		want bool
	}{
		"a token in a file, which client-go reads again": {inFile("a"), inFile("b"), true},
		"a token": {&rest.Config{BearerToken: "a"}, &rest.Config{BearerToken: "b"}, false},
		"a certificate": {
			&rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: []byte("a")}},
			&rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: []byte("b")}}, false,
		},
		"the same": {&rest.Config{Username: "a"}, &rest.Config{Username: "a", QPS: 5}, true},
	} {
		if got := sameCredentials(test.a, test.b); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
