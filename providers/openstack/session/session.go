package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/mooring-ccm/mooring/internal/version"
	"github.com/mooring-ccm/mooring/providers/openstack/config"
)

// refusedPause is how long credentials that Keystone has refused are not tried again: it may lock a user out who tries too often.
const refusedPause = 10 * time.Second

// Configured is a config that changes, as a *config.Source is one.
type Configured interface {
	// Current returns the config in force.
	Current() *config.Config
	// Reload reads it again at once.
	Reload(ctx context.Context) error
}

// Session is safe for concurrent use.
type Session struct {
	config Configured
	// turn is held by the caller that logs in.
	turn chan struct{}

	mu      sync.Mutex
	clients *Clients
	// refused is why Keystone refused the credentials of a config, and until when they are not tried again.
	refused       error
	refusedConfig *config.Config
	refusedUntil  time.Time
}

// New returns a session. It makes no call.
func New(config Configured) *Session {
	return &Session{config: config, turn: make(chan struct{}, 1)}
}

// Do calls a function with the clients of the session, once, and a second time if its call was refused for the credentials and there
// are others now. The function makes one call, so a refusal means that nothing has happened. Its error comes back classified.
func (s *Session) Do(ctx context.Context, call func(ctx context.Context, clients *Clients) error) error {
	clients, err := s.login(ctx)
	if err == nil {
		err = Classify(call(ctx, clients))
	}
	if !IsUnauthorized(err) {
		return err
	}
	_ = s.config.Reload(ctx) // an error says that the config before stays in force
	if clients != nil && clients.config == s.config.Current() {
		s.forget(clients)
		return err
	}
	again, loginErr := s.login(ctx)
	if loginErr != nil {
		return loginErr
	}
	return Classify(call(ctx, again))
}

// Clients returns the clients of the session, for several calls. They renew the token by themselves. After a change of the config the next
// call of Clients logs in anew.
func (s *Session) Clients(ctx context.Context) (*Clients, error) { return s.login(ctx) }

// CloseIdleConnections closes connections that nothing uses.
func (s *Session) CloseIdleConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients != nil {
		s.clients.provider.HTTPClient.CloseIdleConnections()
	}
}

// login returns the clients for the config in force, and logs in if there are no clients yet.
func (s *Session) login(ctx context.Context) (*Clients, error) {
	current := s.config.Current()
	if clients, err, known := s.known(current); known {
		return clients, err
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	current = s.config.Current()
	if clients, err, known := s.known(current); known { // another caller has logged in meanwhile
		return clients, err
	}
	clients, err := authenticate(ctx, current)
	err = Classify(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("logging in at %s: %w", current.Global.AuthURL, refusal(err))
		if IsUnauthorized(err) {
			s.refused, s.refusedConfig, s.refusedUntil = err, current, time.Now().Add(refusedPause)
		}
		return nil, err
	}
	if s.clients != nil {
		s.clients.provider.HTTPClient.CloseIdleConnections()
	}
	s.clients = clients
	return clients, nil
}

// known returns what the last login for a config came to, if it still counts.
func (s *Session) known(current *config.Config) (*Clients, error, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.clients != nil && s.clients.config == current:
		return s.clients, nil, true
	case s.refused != nil && s.refusedConfig == current && time.Now().Before(s.refusedUntil):
		return nil, s.refused, true
	default:
		return nil, nil, false
	}
}

// forget has the next call log in anew.
func (s *Session) forget(clients *Clients) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients == clients {
		s.clients = nil
	}
}

// authenticate gets a token.
func authenticate(ctx context.Context, current *config.Config) (*Clients, error) {
	client, err := openstack.NewClient(current.Global.AuthURL)
	if err != nil {
		return nil, err
	}
	client.UserAgent.Prepend(version.UserAgent() + "/openstack")
	client.HTTPClient = http.Client{
		Transport: newTransport(current.TLS), Timeout: current.Metadata.RequestTimeout, CheckRedirect: sameHost,
	}
	options := authOptions(current.Global)
	if err := openstack.AuthenticateV3(ctx, client, &options, gophercloud.EndpointOpts{}); err != nil {
		client.HTTPClient.CloseIdleConnections()
		return nil, err
	}
	return &Clients{config: current, provider: client, services: map[string]*gophercloud.ServiceClient{}}, nil
}

// errRedirected says that a service sends its callers to another host, which would get the token.
var errRedirected = errors.New("the service redirects to another host, which is not given the token")

// sameHost is http.Client.CheckRedirect. The library drops no header with a token that it does not know.
func sameHost(next *http.Request, before []*http.Request) error {
	if next.URL.Host != before[0].URL.Host || next.URL.Scheme != before[0].URL.Scheme || len(before) > 3 {
		return errRedirected
	}
	return nil
}

// authOptions are the credentials of a config that was validated.
func authOptions(global config.Global) gophercloud.AuthOptions {
	options := gophercloud.AuthOptions{AllowReauth: true}
	user := func() {
		if options.UserID = global.UserID; options.UserID == "" {
			options.Username = global.Username
			options.DomainID, options.DomainName = domain(global.UserDomainID, global.UserDomainName, global.DomainID, global.DomainName)
		}
	}
	scope := &gophercloud.AuthScope{ProjectID: global.TenantID}
	if scope.ProjectID == "" {
		scope.ProjectName = global.TenantName
		if scope.ProjectName != "" {
			scope.DomainID, scope.DomainName = domain(global.TenantDomainID, global.TenantDomainName, global.DomainID, global.DomainName)
		}
	}
	switch {
	case global.ApplicationCredentialID != "" || global.ApplicationCredentialName != "":
		options.ApplicationCredentialSecret = global.ApplicationCredentialSecret.Reveal()
		if options.ApplicationCredentialID = global.ApplicationCredentialID; options.ApplicationCredentialID == "" {
			options.ApplicationCredentialName = global.ApplicationCredentialName
			user()
		}
	case global.TrustID != "":
		user()
		options.Password = global.Password.Reveal()
		if global.TrusteeID != "" {
			options.UserID, options.Username, options.DomainID, options.DomainName = global.TrusteeID, "", "", ""
		}
		if global.TrusteePassword != "" {
			options.Password = global.TrusteePassword.Reveal()
		}
		options.Scope = &gophercloud.AuthScope{TrustID: global.TrustID}
	case global.Token != "" && global.Password == "":
		options.TokenID, options.AllowReauth = global.Token.Reveal(), false
		if *scope != (gophercloud.AuthScope{}) {
			options.Scope = scope
		}
	default:
		user()
		options.Password, options.Scope = global.Password.Reveal(), scope
	}
	return options
}

// domain returns an ID or a name, the special one before the one that is for user and project alike.
func domain(id, name, otherID, otherName string) (string, string) {
	switch {
	case id != "":
		return id, ""
	case name != "":
		return "", name
	case otherID != "":
		return otherID, ""
	default:
		return "", otherName
	}
}
