package session

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/mooring-ccm/mooring/dev/openstack/fakecloud"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/config"
)

// listServers makes one call of Nova.
func listServers(ctx context.Context, s *Session) error {
	return s.Do(ctx, func(ctx context.Context, clients *Clients) error {
		compute, err := clients.Compute(ctx)
		if err != nil {
			return err
		}
		_, err = compute.Get(ctx, compute.ServiceURL("servers", "detail"), &struct{}{}, nil)
		return err
	})
}

func TestOneLoginServesEverybody(t *testing.T) {
	cloud := fakecloud.New(t)
	s := New(cloud.Source(t, ""))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := listServers(t.Context(), s); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if cloud.Logins != 1 || len(cloud.Calls) != 20 {
		t.Errorf("%d logins for %d calls", cloud.Logins, len(cloud.Calls))
	}
	s.CloseIdleConnections()
}

// A token that is no longer valid is renewed, and the call is made again.
func TestTokensAreRenewed(t *testing.T) {
	cloud := fakecloud.New(t)
	s := New(cloud.Source(t, ""))
	for range 2 {
		if err := listServers(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		cloud.Tokens = map[string]bool{}
	}
	if cloud.Logins != 2 {
		t.Errorf("%d logins, want one more", cloud.Logins)
	}
}

// rotating is a config that changes when it is read again.
type rotating struct {
	current, next *config.Config
	reloads       int
}

func (r *rotating) Current() *config.Config { return r.current }

func (r *rotating) Reload(context.Context) error {
	r.reloads++
	if r.next != nil {
		r.current = r.next
	}
	return nil
}

// Credentials that are refused are read again at once: the call that found out succeeds.
func TestRefusedCredentialsAreReadAgain(t *testing.T) {
	cloud := fakecloud.New(t)
	before := cloud.Source(t, "").Current()
	after := *before
	after.Global.ApplicationCredentialSecret = "n3w"
	source := &rotating{current: before}
	s := New(source)
	if err := listServers(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	cloud.Secret, cloud.Tokens, source.next = "n3w", map[string]bool{}, &after
	if err := listServers(t.Context(), s); err != nil {
		t.Errorf("after the rotation: %v", err)
	}
	if source.reloads != 1 {
		t.Errorf("the config was read again %d times", source.reloads)
	}
}

// Keystone locks users out who try too often: refused credentials are tried again after a pause only.
func TestRefusedCredentialsAreNotTriedAtOnce(t *testing.T) {
	cloud := fakecloud.New(t)
	cloud.Secret = "other"
	s := New(cloud.Source(t, ""))
	for range 5 {
		err := listServers(t.Context(), s)
		if !IsUnauthorized(err) || provider.IsTerminal(err) || !strings.Contains(err.Error(), "logging in at "+cloud.URL) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%v", err)
		}
	}
	if cloud.Logins != 1 {
		t.Errorf("%d logins with a wrong secret", cloud.Logins)
	}
}

// Keystone says 404 to an application credential that was deleted. That says nothing of the server or port that was asked for.
func TestDeletedCredentialsDenyNothing(t *testing.T) {
	cloud := fakecloud.New(t)
	gone := func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error": {"code": 404, "message": "Could not find Application Credential: 1234.", "title": "Not Found"}}`))
		return true
	}
	s := New(cloud.Source(t, ""))
	if err := listServers(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	cloud.Fault, cloud.Tokens = gone, map[string]bool{}
	for what, session := range map[string]*Session{"a token that cannot be renewed": s, "no login at all": New(cloud.Source(t, ""))} {
		err := listServers(t.Context(), session)
		if err == nil || !IsUnauthorized(err) || IsMissing(err) || provider.IsTerminal(err) {
			t.Errorf("%s: the error %v is a refusal: %t, denies what was asked for: %t, ends the tries: %t", what, err, IsUnauthorized(err), IsMissing(err), provider.IsTerminal(err))
		}
	}
}

// While Keystone is away, calls with a valid token go on, and others fail with an error that may be repeated.
func TestKeystoneAway(t *testing.T) {
	cloud := fakecloud.New(t)
	s := New(cloud.Source(t, ""))
	if err := listServers(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	cloud.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v3/auth/tokens" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	}
	if err := listServers(t.Context(), s); err != nil {
		t.Errorf("with a token: %v", err)
	}
	cloud.Tokens = map[string]bool{}
	if err := listServers(t.Context(), s); StatusOf(err) != 503 || provider.IsTerminal(err) || !strings.Contains(err.Error(), "renewing the token") {
		t.Errorf("without: %v", err)
	}
}

// A call ends with its context, and without one after request-timeout.
func TestCallsEnd(t *testing.T) {
	cloud := fakecloud.New(t)
	s := New(cloud.Source(t, "[Metadata]\nrequest-timeout=50ms\n"))
	hang := make(chan struct{})
	defer close(hang)
	cloud.Fault = func(http.ResponseWriter, *http.Request) bool { <-hang; return true }
	if err := listServers(context.Background(), s); err == nil {
		t.Error("an unanswered call succeeded")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := listServers(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that the context is canceled", err)
	}
}

// A token is not sent to another host, whatever the services say.
func TestRedirectsToOtherHosts(t *testing.T) {
	other := fakecloud.New(t)
	cloud := fakecloud.New(t)
	cloud.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "detail") {
			return false
		}
		http.Redirect(w, r, other.URL+"/compute/v2.1/servers/detail", http.StatusTemporaryRedirect)
		return true
	}
	other.Fault = func(_ http.ResponseWriter, r *http.Request) bool {
		t.Errorf("%s was called with the token %q", r.URL, r.Header.Get("X-Auth-Token"))
		return false
	}
	if err := listServers(t.Context(), New(cloud.Source(t, ""))); !errors.Is(err, errRedirected) {
		t.Errorf("%v", err)
	}
}

func TestServicesThatAreNotThere(t *testing.T) {
	cloud := fakecloud.New(t)
	s := New(cloud.Source(t, ""))
	err := s.Do(t.Context(), func(ctx context.Context, clients *Clients) error {
		_, err := clients.LoadBalancer(ctx)
		return err
	})
	if !provider.IsTerminal(err) || !strings.Contains(err.Error(), "finding the service load-balancer: the catalog has no public endpoint for region RegionOne") {
		t.Errorf("%v", err)
	}
}

func TestMicroversions(t *testing.T) {
	for newest, want := range map[string]string{"2.93": "2.69", "2.60": "2.60", "2.47": "2.47", "2.46": ""} {
		cloud := fakecloud.New(t)
		cloud.Microversion = newest
		var got string
		err := New(cloud.Source(t, "")).Do(t.Context(), func(ctx context.Context, clients *Clients) error {
			compute, err := clients.Compute(ctx)
			if err == nil {
				got = compute.Microversion
			}
			return err
		})
		if got != want || (err != nil) != (want == "") || err != nil && !provider.IsTerminal(err) {
			t.Errorf("of %s: %q, %v; want %q", newest, got, err, want)
		}
	}
}

func TestCredentialsOfEachKind(t *testing.T) {
	for name, test := range map[string]struct {
		global config.Global
		want   gophercloud.AuthOptions
	}{
		"application credential": {
			config.Global{ApplicationCredentialID: "a", ApplicationCredentialSecret: "s", Username: "u", TenantID: "t"},
			gophercloud.AuthOptions{ApplicationCredentialID: "a", ApplicationCredentialSecret: "s", AllowReauth: true},
		},
		"application credential by name": {
			config.Global{ApplicationCredentialName: "a", ApplicationCredentialSecret: "s", Username: "u", DomainName: "d"},
			gophercloud.AuthOptions{ApplicationCredentialName: "a", ApplicationCredentialSecret: "s", Username: "u", DomainName: "d", AllowReauth: true},
		},
		"password": {
			config.Global{Username: "u", Password: "p", TenantName: "t", DomainName: "d", UserDomainID: "e"},
			gophercloud.AuthOptions{Username: "u", Password: "p", DomainID: "e", AllowReauth: true, Scope: &gophercloud.AuthScope{ProjectName: "t", DomainName: "d"}},
		},
		"password with IDs": {
			config.Global{UserID: "u", Password: "p", TenantID: "t", DomainName: "d"},
			gophercloud.AuthOptions{UserID: "u", Password: "p", AllowReauth: true, Scope: &gophercloud.AuthScope{ProjectID: "t"}},
		},
		"trust": {
			config.Global{TrustID: "t", TrusteeID: "u", TrusteePassword: "p", Username: "x", DomainName: "d"},
			gophercloud.AuthOptions{UserID: "u", Password: "p", AllowReauth: true, Scope: &gophercloud.AuthScope{TrustID: "t"}},
		},
		"token": {config.Global{Token: "t"}, gophercloud.AuthOptions{TokenID: "t"}},
	} {
		got := authOptions(test.global)
		var gotScope, wantScope gophercloud.AuthScope
		if got.Scope != nil {
			gotScope = *got.Scope
		}
		if test.want.Scope != nil {
			wantScope = *test.want.Scope
		}
		got.Scope, test.want.Scope = nil, nil
		if got != test.want || gotScope != wantScope {
			t.Errorf("%s: %+v %+v, want %+v %+v", name, got, gotScope, test.want, wantScope)
		}
	}
}

func TestClassify(t *testing.T) {
	answer := func(status int, body string, header ...string) error {
		h := http.Header{}
		for i := 0; i+1 < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return gophercloud.ErrUnexpectedResponseCode{Method: "GET", URL: "https://n/servers?name=x", Actual: status, Body: []byte(body), ResponseHeader: h}
	}
	const missing = `{"itemNotFound": {"code": 404, "message": "Instance x could not be found."}}`
	for name, test := range map[string]struct {
		err                                           error
		text                                          string
		terminal, throttled, missing, conflict, quota bool
	}{
		"no such server":    {err: answer(404, missing), text: "GET https://n/servers: 404 itemNotFound: Instance x could not be found.", missing: true},
		"a proxy's 404":     {err: answer(404, "<html>"), text: "GET https://n/servers: 404: <html>"},
		"too many":          {err: answer(429, "", "Retry-After", "7"), text: "throttled by the cloud, retry after 7s", throttled: true},
		"overloaded":        {err: answer(503, "", "Retry-After", "3"), text: "retry after 3s", throttled: true},
		"away":              {err: answer(503, ""), text: "503"},
		"bad request":       {err: answer(400, `{"NeutronError": {"type": "InvalidRoutes", "message": "m"}}`), text: "400 InvalidRoutes: m", terminal: true},
		"changed meanwhile": {err: answer(412, `{"NeutronError": {"type": "RevisionNumberConstraintFailed", "message": "m"}}`), text: "412", conflict: true},
		"immutable":         {err: answer(409, `{"faultcode": "Client", "faultstring": "is immutable", "debuginfo": null}`), text: "409 Client: is immutable", conflict: true},
		"quota of Neutron":  {err: answer(409, `{"NeutronError": {"type": "OverQuota", "message": "m"}}`), text: "OverQuota", terminal: true, quota: true},
		"quota of Nova":     {err: answer(403, `{"forbidden": {"message": "Quota exceeded for instances"}}`), text: "Quota", terminal: true, quota: true},
		"token that stays": {
			err: &gophercloud.ErrErrorAfterReauthentication{ErrOriginal: answer(401, "")}, text: "401",
		},
		"something else": {err: errors.New("connection refused"), text: "connection refused"},
	} {
		got := Classify(test.err)
		if !strings.Contains(got.Error(), test.text) || provider.IsTerminal(got) != test.terminal || provider.IsThrottled(got) != test.throttled ||
			IsMissing(got) != test.missing || IsConflict(got) != test.conflict || IsQuota(got) != test.quota {
			t.Errorf("%s: %v: terminal %t, throttled %t, missing %t, conflict %t, quota %t", name, got, provider.IsTerminal(got),
				provider.IsThrottled(got), IsMissing(got), IsConflict(got), IsQuota(got))
		}
	}
	if Classify(nil) != nil {
		t.Error("an error of none")
	}
}

// What the services were seen to say of quotas.
func TestQuotasNameTheResource(t *testing.T) {
	for body, want := range map[string]string{
		`{"forbidden": {"code": 403, "message": "Quota exceeded for instances: Requested 1, but already used 0 of 0 instances"}}`:   "instances",
		`{"faultcode": "Client", "faultstring": "Quota has been met for resources: Load Balancer", "debuginfo": null}`:              "Load Balancer",
		`{"NeutronError": {"type": "OverQuota", "message": "Quota exceeded for resources: ['floatingip', 'port'].", "detail": ""}}`: "floatingip, port",
		`{"forbidden": {"code": 403, "message": "The quota is used up"}}`:                                                           "",
	} {
		resource, met := Quota(Classify(gophercloud.ErrUnexpectedResponseCode{Actual: http.StatusForbidden, Body: []byte(body)}))
		if !met || resource != want {
			t.Errorf("%s: met %t, of %q, want of %q", body, met, resource, want)
		}
	}
	if _, met := Quota(Classify(gophercloud.ErrUnexpectedResponseCode{Actual: http.StatusForbidden, Body: []byte("policy")})); met {
		t.Error("a policy is taken for a quota")
	}
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for value, want := range map[string]time.Duration{
			"5": 5 * time.Second, "-1": 0, "x": 0, "": 0, "999999999999": time.Hour, "86400": time.Hour,
			time.Now().Add(time.Minute).UTC().Format(http.TimeFormat):  time.Minute,
			time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat): 0,
		} {
			if got := retryAfter(http.Header{"Retry-After": {value}}); got != want {
				t.Errorf("%q: %s, want %s", value, got, want)
			}
		}
	})
}
