// Package redfishsim is a Redfish service (DSP0266) without hardware: as much of one as power management needs, with sessions and
// passwords, and with the faults that such services have.
package redfishsim

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
)

// The power states that a system has here (DSP0268, PowerState). SetPower takes any other as well.
const (
	On  = "On"
	Off = "Off"
)

const (
	root     = "/redfish/v1"
	systems  = root + "/Systems"
	service  = root + "/SessionService"
	sessions = service + "/Sessions"
)

// System is a computer that a Service manages.
type System struct {
	// ID is unique in the service, and UUID what its SMBIOS says.
	ID, UUID string
	// Power is its power state.
	Power string
}

// Service is a Redfish service as an http.Handler. It is safe for concurrent use.
type Service struct {
	mu       sync.Mutex
	username string
	password string
	systems  map[string]System
	// sessions are tokens by the paths of sessions, and begun how many there ever were.
	sessions map[string]string
	begun    int
	// requests counts by method and path.
	requests map[string]int
	// resetTypes are the resets that systems take, ignoresResets says that they have no effect, and changes counts what changes of
	// each system, by its ID: its ETag is made of it.
	resetTypes        []string
	ignoresResets     bool
	refusesConditions bool
	changes           map[string]int
	// unlicensed and maxSessions are what the methods of these names set; no limit is 0.
	unlicensed  bool
	maxSessions int
	// withoutSessions, fault and hang are what the methods of these names set.
	withoutSessions bool
	fault           int
	hang            chan struct{}
	pageSize        int
}

// New returns a service with one user, and systems that are on unless they say otherwise.
func New(username, password string, all ...System) *Service {
	s := &Service{
		username: username, password: password, systems: map[string]System{}, sessions: map[string]string{}, requests: map[string]int{},
		changes:    map[string]int{},
		resetTypes: slices.Sorted(maps.Keys(resets)),
	}
	for _, system := range all {
		if system.Power == "" {
			system.Power = On
		}
		s.systems[system.ID] = system
	}
	return s
}

// Power returns the power state of a system.
func (s *Service) Power(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.systems[id].Power
}

// SetPower changes the power state of a system, or adds a system.
func (s *Service) SetPower(id, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	system := s.systems[id]
	system.ID, system.Power = id, state
	s.systems[id] = system
	s.changes[id]++
}

// SetUUID gives a system another UUID: it is another computer, as when a blade is moved.
func (s *Service) SetUUID(id, uuid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	system := s.systems[id]
	system.ID, system.UUID = id, uuid
	s.systems[id] = system
	s.changes[id]++
}

// Rename gives a system another ID, as an update of firmware may.
func (s *Service) Rename(id, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	system := s.systems[id]
	delete(s.systems, id)
	system.ID = to
	s.systems[to] = system
}

// SetPassword changes the password of the user, and ends all sessions.
func (s *Service) SetPassword(password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.password = password
	clear(s.sessions)
}

// ForgetSessions ends all sessions, as a restart of the service does.
func (s *Service) ForgetSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions)
}

// Sessions returns how many sessions there are, and how many there ever were.
func (s *Service) Sessions() (open, begun int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions), s.begun
}

// WithoutSessions makes the service one that knows no sessions.
func (s *Service) WithoutSessions() *Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.withoutSessions = true
	return s
}

// WithPages makes the service show its systems in pages of so many.
func (s *Service) WithPages(size int) *Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pageSize = size
	return s
}

// TakeResets says which resets systems take (DSP0268, ResetType). At first they take all.
func (s *Service) TakeResets(types ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resetTypes = types
}

// IgnoreResets has resets answered as if they worked, and leaves the systems as they are, as firmware does that hangs.
func (s *Service) IgnoreResets(ignore bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ignoresResets = ignore
}

// RefuseConditions has every reset with If-Match answered by 412. Some services accept no such header on the URI of an action (iDRAC10). Others
// compare weak ETags as RFC 9110 13.1.1 says.
func (s *Service) RefuseConditions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusesConditions = true
}

// Unlicensed has a user log in, and answers every other request of the user by 403, as services do that lack a license.
func (s *Service) Unlicensed(unlicensed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlicensed = unlicensed
}

// LimitSessions has a login refused by 503 while there are so many sessions.
func (s *Service) LimitSessions(most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.maxSessions = most
}

// Fail makes every request end with an HTTP status until it is called with 0.
func (s *Service) Fail(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = status
}

// Hang leaves every request without an answer until end is called.
func (s *Service) Hang() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hang := make(chan struct{})
	s.hang = hang
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(hang)
		s.hang = nil
	}
}

// Requests returns how many requests there were by method and path.
func (s *Service) Requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}

// ServeHTTP is http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests[r.Method+" "+r.URL.Path]++
	hang, fault := s.hang, s.fault
	s.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("OData-Version", "4.0")
	if fault != 0 {
		refuse(w, fault, "Base.1.0.GeneralError")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.route(w, r)
}

// route answers one request.
func (s *Service) route(w http.ResponseWriter, r *http.Request) {
	at := path.Clean(r.URL.Path)
	switch open := at == root || at == "/redfish" || at == sessions && r.Method == http.MethodPost; {
	case !open && !s.authenticated(r):
		w.Header().Set("WWW-Authenticate", `Basic realm="redfish"`)
		refuse(w, http.StatusUnauthorized, "Base.1.0.NoValidSession")
	case at == "/redfish":
		answer(w, http.StatusOK, map[string]any{"v1": root + "/"})
	case at == root:
		s.showRoot(w)
	case at == service && !s.withoutSessions:
		answer(w, http.StatusOK, resource(service, "#SessionService.v1_1_8.SessionService", "SessionService", map[string]any{
			"ServiceEnabled": true, "SessionTimeout": 300, "Sessions": link(sessions),
		}))
	case at == sessions && !s.withoutSessions:
		s.login(w, r)
	case path.Dir(at) == sessions && !s.withoutSessions:
		s.logout(w, r, at)
	case s.unlicensed:
		refuse(w, http.StatusForbidden, "Base.1.0.InsufficientPrivilege")
	case at == systems:
		s.list(w, r)
	default:
		s.routeSystem(w, r, at)
	}
}

func (s *Service) authenticated(r *http.Request) bool {
	if username, password, ok := r.BasicAuth(); ok {
		return username == s.username && password == s.password
	}
	token := r.Header.Get("X-Auth-Token")
	return token != "" && slices.Contains(slices.Collect(maps.Values(s.sessions)), token)
}

func (s *Service) showRoot(w http.ResponseWriter) {
	shown := resource(root+"/", "#ServiceRoot.v1_5_0.ServiceRoot", "RootService", map[string]any{
		"RedfishVersion": "1.6.0", "Systems": link(systems),
	})
	if !s.withoutSessions {
		shown["SessionService"] = link(service)
		shown["Links"] = map[string]any{"Sessions": link(sessions)}
	}
	answer(w, http.StatusOK, shown)
}

// login begins a session (DSP0266, 13.3.4.4).
func (s *Service) login(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		answer(w, http.StatusOK, collection(sessions, "#SessionCollection.SessionCollection", slices.Sorted(maps.Keys(s.sessions))))
		return
	}
	var asked struct{ UserName, Password string }
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		refuse(w, http.StatusBadRequest, "Base.1.0.MalformedJSON")
		return
	}
	if asked.UserName != s.username || asked.Password != s.password {
		refuse(w, http.StatusUnauthorized, "Base.1.0.ResourceAtUriUnauthorized")
		return
	}
	if s.maxSessions > 0 && len(s.sessions) >= s.maxSessions {
		refuse(w, http.StatusServiceUnavailable, "Base.1.0.SessionLimitExceeded")
		return
	}
	s.begun++
	at := fmt.Sprintf("%s/%d", sessions, s.begun)
	s.sessions[at] = uuid.NewString()
	w.Header().Set("Location", at)
	w.Header().Set("X-Auth-Token", s.sessions[at])
	answer(w, http.StatusCreated, resource(at, "#Session.v1_3_0.Session", path.Base(at), map[string]any{"UserName": s.username}))
}

func (s *Service) logout(w http.ResponseWriter, r *http.Request, at string) {
	switch _, known := s.sessions[at]; {
	case !known:
		refuse(w, http.StatusNotFound, "Base.1.0.ResourceMissingAtURI")
	case r.Method != http.MethodDelete:
		answer(w, http.StatusOK, resource(at, "#Session.v1_3_0.Session", path.Base(at), map[string]any{"UserName": s.username}))
	default:
		delete(s.sessions, at)
		w.WriteHeader(http.StatusNoContent)
	}
}

// list shows the systems, in pages if there is a size.
func (s *Service) list(w http.ResponseWriter, r *http.Request) {
	var paths []string
	for _, id := range slices.Sorted(maps.Keys(s.systems)) {
		paths = append(paths, systems+"/"+id)
	}
	shown := collection(systems, "#ComputerSystemCollection.ComputerSystemCollection", paths)
	if s.pageSize > 0 {
		skip := 0
		_, _ = fmt.Sscan(r.URL.Query().Get("$skip"), &skip)
		end := min(skip+s.pageSize, len(paths))
		shown["Members"] = links(paths[min(skip, end):end])
		if end < len(paths) {
			shown["Members@odata.nextLink"] = fmt.Sprintf("%s?$skip=%d", systems, end)
		}
	}
	answer(w, http.StatusOK, shown)
}

func (s *Service) routeSystem(w http.ResponseWriter, r *http.Request, at string) {
	id, action, _ := strings.Cut(strings.TrimPrefix(at, systems+"/"), "/")
	system, known := s.systems[id]
	switch {
	case !known || !strings.HasPrefix(at, systems+"/"):
		refuse(w, http.StatusNotFound, "Base.1.0.ResourceMissingAtURI")
	case action == "" && r.Method == http.MethodGet:
		w.Header().Set("ETag", s.etag(id))
		answer(w, http.StatusOK, s.show(system))
	case action == "Actions/ComputerSystem.Reset" && r.Method == http.MethodPost:
		s.reset(w, r, system)
	default:
		refuse(w, http.StatusMethodNotAllowed, "Base.1.0.OperationNotAllowed")
	}
}

// resets are what ComputerSystem.Reset takes (DSP0268, ResetType), with the power state that follows.
var resets = map[string]string{
	"On": On, "ForceOn": On, "ForceRestart": On, "PowerCycle": On, "ForceOff": Off, "GracefulShutdown": Off,
}

func (s *Service) reset(w http.ResponseWriter, r *http.Request, system System) {
	var asked struct{ ResetType string }
	err := json.NewDecoder(r.Body).Decode(&asked)
	state, known := resets[asked.ResetType]
	if err != nil || !known || !slices.Contains(s.resetTypes, asked.ResetType) {
		refuse(w, http.StatusBadRequest, "Base.1.0.ActionParameterNotSupported")
		return
	}
	if condition := r.Header.Get("If-Match"); condition != "" && (s.refusesConditions || condition != s.etag(system.ID)) {
		refuse(w, http.StatusPreconditionFailed, "Base.1.0.PreconditionFailed")
		return
	}
	if !s.ignoresResets {
		system.Power = state
		s.systems[system.ID] = system
		s.changes[system.ID]++
	}
	w.WriteHeader(http.StatusNoContent)
}

// etag is the version of a system (RFC 9110, 8.8.3).
func (s *Service) etag(id string) string { return fmt.Sprintf(`W/"%s-%d"`, id, s.changes[id]) }

func (s *Service) show(system System) map[string]any {
	at := systems + "/" + system.ID
	return resource(at, "#ComputerSystem.v1_10_0.ComputerSystem", system.ID, map[string]any{
		"UUID": system.UUID, "PowerState": system.Power, "SystemType": "Physical",
		"Boot":   map[string]any{"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None"},
		"Status": map[string]any{"State": "Enabled", "Health": "OK"},
		"Actions": map[string]any{"#ComputerSystem.Reset": map[string]any{
			"target":                            at + "/Actions/ComputerSystem.Reset",
			"ResetType@Redfish.AllowableValues": s.resetTypes,
		}},
	})
}

// resource returns a resource with what all have (DSP0266, 9.5).
func resource(at, kind, id string, more map[string]any) map[string]any {
	shown := map[string]any{"@odata.id": at, "@odata.type": kind, "Id": id, "Name": id}
	maps.Copy(shown, more)
	return shown
}

func collection(at, kind string, members []string) map[string]any {
	return map[string]any{
		"@odata.id": at, "@odata.type": kind, "Name": path.Base(at), "Members": links(members), "Members@odata.count": len(members),
	}
}

func link(to string) map[string]string { return map[string]string{"@odata.id": to} }

func links(to []string) []map[string]string {
	all := []map[string]string{}
	for _, at := range to {
		all = append(all, link(at))
	}
	return all
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that has gone needs no answer
}

// refuse answers with an error (DSP0266, 8.6).
func refuse(w http.ResponseWriter, status int, message string) {
	answer(w, status, map[string]any{"error": map[string]any{
		"code": message, "message": http.StatusText(status),
		"@Message.ExtendedInfo": []any{map[string]any{"MessageId": message, "Message": http.StatusText(status)}},
	}})
}
