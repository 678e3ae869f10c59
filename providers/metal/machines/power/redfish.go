package power

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

const (
	// rootPath is where a service says what it has, to anybody (DSP0266, 6.3 and 13.3.2).
	rootPath = "/redfish/v1/"
	// maxBody is how much of an answer is read, maxPages how many pages of a collection, and maxMembers how many resources they may name:
	// an enclosure has some dozens of systems.
	maxBody, maxPages, maxMembers = 1 << 20, 50, 1000
	// maxPath is how long the path of a resource may be, maxShownIDs how many systems an error names, and maxError how many bytes an
	// error has.
	maxPath, maxShownIDs, maxError = 2048, 10, 1000
)

// redfish asks by Redfish (DSP0266).
type redfish struct {
	config      config.Redfish
	credentials *config.Credentials
	systemUUID  string
	http        tlsClient
	// root is what the service has; nil as long as it is not known.
	root *serviceRoot
	// system is the path of the machine's system, empty as long as it is not known.
	system  string
	session session
}

// reference is a link from one resource to another.
type reference struct {
	ID string `json:"@odata.id"`
}

// serviceRoot is what matters of the root of a service.
type serviceRoot struct {
	Systems reference `json:"Systems"`
	Links   struct {
		// Sessions is the collection of sessions, which is where logins go (DSP0266, 13.3.4.4).
		Sessions reference `json:"Sessions"`
	} `json:"Links"`
}

// session is a login that the service remembers.
type session struct {
	// token is what requests show; empty if there is no session.
	token string
	// path is what is deleted to end it, and login who it is for.
	path  string
	login login
}

func newRedfish(c config.Redfish, credentials *config.Credentials, systemUUID string) *redfish {
	c.Endpoint = strings.TrimRight(c.Endpoint, "/")
	return &redfish{config: c, credentials: credentials, systemUUID: systemUUID, http: tlsClient{config: c}}
}

// Read asks for the PowerState of the machine's system (DSP0268, ComputerSystem).
func (r *redfish) Read(ctx context.Context) (Reading, error) {
	reading, err := r.read(ctx)
	var answered *statusError
	if errors.As(err, &answered) && answered.missing() {
		r.system, r.root = "", nil // an update of the firmware may have moved them
	}
	if err != nil {
		return Reading{}, message.Bound(fmt.Errorf("redfish service %s: %w", r.config.Endpoint, err), maxError)
	}
	if wanted := r.systemUUID; wanted != "" && reading.System.Known() && !reading.System.Is(wanted) {
		r.system = "" // it may be at another path by now
	}
	return reading, nil
}

func (r *redfish) read(ctx context.Context) (Reading, error) {
	if r.root == nil {
		root := &serviceRoot{}
		if _, err := r.do(ctx, http.MethodGet, rootPath, nil, root, func(*http.Request) {}); err != nil {
			return Reading{}, err
		}
		r.root = root
	}
	if r.system == "" {
		found, err := r.find(ctx)
		if err != nil {
			return Reading{}, err
		}
		r.system = found
	}
	system, err := r.getSystem(ctx, r.system)
	if err != nil {
		return Reading{}, err
	}
	reading := Reading{System: newSystemUUID(system.UUID)}
	switch system.PowerState {
	case "On", "PoweringOn", "PoweringOff", "Paused": // none of them is off yet
		reading.State = On
	case "Off":
		reading.State = Off
	}
	return reading, nil
}

// Close ends the session.
func (r *redfish) Close(ctx context.Context) error {
	defer r.http.close()
	if err := r.logout(ctx); err != nil {
		return fmt.Errorf("redfish service %s: ending the session: %w", r.config.Endpoint, err)
	}
	return nil
}

// system is what matters of a ComputerSystem.
type system struct {
	ID         string `json:"Id"`
	UUID       string `json:"UUID"`
	PowerState string `json:"PowerState"`
	ETag       string `json:"@odata.etag"`
	Actions    struct {
		Reset struct {
			Target string `json:"target"`
			// Types are the resets that there are; none if the service does not list them here.
			Types []string `json:"ResetType@Redfish.AllowableValues"`
		} `json:"#ComputerSystem.Reset"`
	} `json:"Actions"`
}

func (r *redfish) getSystem(ctx context.Context, at string) (system, error) {
	var found system
	header, err := r.call(ctx, http.MethodGet, at, nil, &found, "")
	if err != nil {
		return system{}, fmt.Errorf("reading the system: %w", err)
	}
	found.ETag = cmp.Or(header.Get("ETag"), found.ETag)
	return found, nil
}

// find returns the path of the machine's system: the one that the config names, that has the machine's UUID, or that is alone.
func (r *redfish) find(ctx context.Context) (string, error) {
	if r.config.SystemID != "" {
		return strings.TrimRight(r.root.Systems.ID, "/") + "/" + url.PathEscape(r.config.SystemID), nil
	}
	members, err := r.members(ctx)
	switch {
	case err != nil:
		return "", err
	case len(members) == 0:
		return "", errors.New("the service has no system")
	case len(members) == 1:
		return members[0], nil
	}
	wanted, known := config.CanonicalUUID(r.systemUUID)
	var ids []string
	for _, member := range members {
		found, err := r.getSystem(ctx, member)
		if err != nil {
			return "", err
		}
		if canonical, ok := config.CanonicalUUID(found.UUID); ok && known && canonical == wanted {
			return member, nil
		}
		if len(ids) < maxShownIDs {
			ids = append(ids, message.Line(found.ID, 64))
		}
	}
	if !known {
		return "", fmt.Errorf("the service has the systems %q: set systemID, or the machine's systemUUID", ids)
	}
	return "", fmt.Errorf("none of the systems %q has the UUID %s: set systemID", ids, r.systemUUID)
}

// members returns the paths of all systems.
func (r *redfish) members(ctx context.Context) ([]string, error) {
	var all []string
	next := r.root.Systems.ID
	for range maxPages {
		var page struct {
			Members []reference `json:"Members"`
			Next    string      `json:"Members@odata.nextLink"`
		}
		if _, err := r.call(ctx, http.MethodGet, next, nil, &page, ""); err != nil {
			return nil, fmt.Errorf("listing the systems: %w", err)
		}
		for _, member := range page.Members {
			all = append(all, member.ID)
		}
		if len(all) > maxMembers {
			return nil, fmt.Errorf("listing the systems: there are more than %d", maxMembers)
		}
		if page.Next == "" {
			return all, nil
		}
		next = page.Next
	}
	return nil, fmt.Errorf("listing the systems: there are more than %d pages", maxPages)
}

// call makes one request as the user. A session in which the service refuses the request is replaced once, and ended before: the service
// may have forgotten it, or count it, and most have room for few. With an ETag the request has an effect only if the resource is
// still as it was read.
func (r *redfish) call(ctx context.Context, method, at string, body, into any, etag string) (http.Header, error) {
	condition := func(request *http.Request) {
		if etag != "" {
			request.Header.Set("If-Match", etag)
		}
	}
	login, err := readLogin(r.credentials)
	if err != nil {
		return nil, err
	}
	if r.config.Auth == config.RedfishBasic {
		return r.do(ctx, method, at, body, into, func(request *http.Request) {
			request.SetBasicAuth(login.username, login.password)
			condition(request)
		})
	}
	for fresh := false; ; fresh = true {
		if r.session.token != "" && r.session.login != login {
			_ = r.logout(ctx) // the service ends it by itself later
		}
		if r.session.token == "" {
			fresh = true
			if err := r.loginAs(ctx, login); err != nil {
				return nil, err
			}
		}
		header, err := r.do(ctx, method, at, body, into, func(request *http.Request) {
			r.session.show(request)
			condition(request)
		})
		if fresh || !errors.Is(err, errCredentials) && !forbidden(err) {
			return header, err
		}
		_ = r.logout(ctx) // the service ends it by itself later
	}
}

// forbidden reports whether the service knows the user, and does not let the user do what was asked.
func forbidden(err error) bool {
	var answered *statusError
	return errors.As(err, &answered) && answered.code == http.StatusForbidden
}

// loginAs begins a session.
func (r *redfish) loginAs(ctx context.Context, login login) error {
	at := r.root.Links.Sessions.ID
	if at == "" {
		return errors.New("the service has no sessions: set auth to Basic")
	}
	body := map[string]string{"UserName": login.username, "Password": login.password}
	header, err := r.do(ctx, http.MethodPost, at, body, nil, func(*http.Request) {})
	switch {
	case forbidden(err):
		return fmt.Errorf("beginning a session: %w: %w", err, errCredentials)
	case err != nil:
		return fmt.Errorf("beginning a session: %w", err)
	case header.Get("X-Auth-Token") == "":
		return errors.New("beginning a session: the service gave no token; set auth to Basic")
	}
	r.session = session{token: header.Get("X-Auth-Token"), path: header.Get("Location"), login: login}
	return nil
}

// logout ends the session, if there is one.
func (r *redfish) logout(ctx context.Context) error {
	ended := r.session
	r.session = session{}
	if ended.token == "" || ended.path == "" {
		return nil
	}
	_, err := r.do(ctx, http.MethodDelete, ended.path, nil, nil, ended.show)
	return err
}

func (s session) show(request *http.Request) { request.Header.Set("X-Auth-Token", s.token) }

// do makes one request and decodes its answer. Its error holds nothing of what the service wrote: that may repeat what it got.
func (r *redfish) do(
	ctx context.Context, method, at string, body, into any, authenticate func(*http.Request),
) (http.Header, error) {
	target, err := r.resolve(at)
	if err != nil {
		return nil, err
	}
	var encoded []byte
	if body != nil {
		if encoded, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(encoded))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("OData-Version", "4.0")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	authenticate(request)
	client, err := r.http.get()
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, r.http.explained(err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	switch {
	case response.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("%w: %w", &statusError{method, at, response.StatusCode}, errCredentials)
	case response.StatusCode < 200 || response.StatusCode > 299:
		return nil, &statusError{method, at, response.StatusCode}
	case err != nil:
		return nil, fmt.Errorf("%s %s: reading the answer: %w", method, at, err)
	}
	if into != nil {
		if err := json.Unmarshal(data, into); err != nil {
			return nil, fmt.Errorf("%s %s: the answer is not the JSON that was expected", method, at)
		}
	}
	return response.Header, nil
}

// resolve makes a URL of what the service calls a resource. It never leaves the service: a token goes nowhere else.
func (r *redfish) resolve(at string) (string, error) {
	base, err := url.Parse(r.config.Endpoint)
	if err != nil {
		return "", err
	}
	reference, err := url.Parse(at)
	if err != nil || len(at) > maxPath || reference.Host != "" && reference.Host != base.Host || !strings.HasPrefix(reference.Path, "/") {
		return "", fmt.Errorf("the service names a resource that is not its own: %.100q", at)
	}
	resolved := *base
	resolved.Path, resolved.RawPath, resolved.RawQuery = reference.Path, reference.RawPath, reference.RawQuery
	if base.Path != "" && !strings.HasPrefix(reference.Path, base.Path+"/") {
		resolved.Path, resolved.RawPath = path.Join(base.Path, reference.Path), ""
	}
	return resolved.String(), nil
}

// statusError is an answer of the service that says that it did not work.
type statusError struct {
	method, path string
	code         int
}

// Error returns what was asked and what the service answered.
func (e *statusError) Error() string {
	text := strings.TrimSpace(fmt.Sprintf("%s %s: %d %s", e.method, e.path, e.code, http.StatusText(e.code)))
	if e.code == http.StatusForbidden {
		text += ": the user has no right to it, or the service no license"
	}
	return text
}

// missing reports whether the service has no such thing.
func (e *statusError) missing() bool {
	return e.code == http.StatusNotFound || e.code == http.StatusMethodNotAllowed || e.code == http.StatusNotImplemented
}
