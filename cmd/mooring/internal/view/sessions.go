package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mooring-ccm/mooring/internal/names"
)

// Session is a BGP session of the replica that was asked, of the provider metal.
type Session struct {
	// Peer is the router's name in the cloud config.
	Peer string `json:"peer"`
	// State is the session's, by the names of RFC 4271: Idle, Connect, Active, OpenSent, OpenConfirm or Established. A manager of another
	// version may say less; then it is empty for a session that is down.
	State string `json:"state,omitempty"`
	// Since is when it came up or went down.
	Since time.Time `json:"since,omitzero"`
	// Prefixes and Paths are how many were announced to the router, of both families, and Flaps is how often the session went down.
	Prefixes int `json:"prefixes"`
	Paths    int `json:"paths"`
	Flaps    int `json:"flaps"`
	// Problems are what keeps the router from having everything, as in mooring_metal_bgp_session_problem, with the family if it is of one.
	Problems []string `json:"problems,omitempty"`
}

// Up reports whether routes are announced.
func (s Session) Up() bool { return s.State == names.SessionEstablished }

// Problem reports whether the router lacks something.
func (s Session) Problem() bool { return !s.Up() || len(s.Problems) > 0 }

// sessionsOf returns the sessions of the replica that was asked: sessions that are down come first, then sessions with problems.
func sessionsOf(seen Seen) []Session {
	of := metrics(seen.Metrics)
	up := of.each(names.MetricSessionUp, "peer")
	changed := of.each(names.MetricSessionChanged, "peer")
	prefixes, paths := of.each(names.MetricSessionPrefixes, "peer"), of.each(names.MetricSessionPaths, "peer")
	flaps := of.each(names.MetricSessionFlaps, "peer")
	states, problems := map[string]string{}, map[string][]string{}
	for _, one := range of[names.MetricSessionState].GetMetric() {
		if reading(one) > 0 {
			states[label(one, "peer")] = label(one, "state")
		}
	}
	for _, one := range of[names.MetricSessionProblem].GetMetric() {
		if peer := label(one, "peer"); reading(one) > 0 {
			problems[peer] = append(problems[peer], strings.TrimSpace(label(one, "problem")+" "+label(one, "family")))
		}
	}
	var sessions []Session
	for _, peer := range slices.Sorted(maps.Keys(up)) {
		one := Session{
			Peer: peer, State: states[peer], Prefixes: int(prefixes[peer]), Paths: int(paths[peer]), Flaps: int(flaps[peer]), Problems: problems[peer],
		}
		if up[peer] > 0 {
			one.State = names.SessionEstablished
		}
		if since := changed[peer]; since > 0 {
			one.Since = time.UnixMilli(int64(since * 1000)).UTC()
		}
		slices.Sort(one.Problems)
		sessions = append(sessions, one)
	}
	slices.SortStableFunc(sessions, func(a, b Session) int {
		return cmp.Or(boolCompare(a.Up(), b.Up()), boolCompare(b.Problem(), a.Problem()))
	})
	return sessions
}

// announcementProblems finds addresses that are announced to no router, by the sessions of the replica and by the conditions of Services.
func announcementProblems(sessions []Session, services []Service) (problems []string) {
	if len(sessions) > 0 && !slices.ContainsFunc(sessions, Session.Up) {
		problems = append(problems, "no BGP session of the replica that was asked is up: it announces nothing to routers")
	}
	lost := 0
	for _, service := range services {
		if service.NoSession {
			lost++
		}
	}
	if lost > 0 {
		problems = append(problems, fmt.Sprintf("%d of %d load balancers are announced to no router, by the condition %s with reason %s",
			lost, len(services), names.ConditionAnnounced, names.ReasonNoSession))
	}
	return problems
}

// writeSessions writes the sessions of the replica that was asked.
func writeSessions(out *strings.Builder, style Style, now time.Time, sessions []Session) {
	if len(sessions) == 0 {
		return
	}
	up := 0
	var rows [][]cell
	for _, one := range sessions {
		state := cell{cmp.Or(one.State, "down"), red}
		if one.Up() {
			state.color, up = green, up+1
		}
		rows = append(rows, []cell{
			{text: one.Peer}, state, {text: age(now, one.Since)}, style.timestamp(one.Since), {text: strconv.Itoa(one.Prefixes)},
			{text: strconv.Itoa(one.Paths)}, {text: strconv.Itoa(one.Flaps)}, {strings.Join(one.Problems, ", "), yellow},
		})
	}
	fmt.Fprintf(out, "\n%s\n", style.paint(fmt.Sprintf("BGP sessions of the replica that was asked: %d of %d up", up, len(sessions)), bold))
	writeTable(out, style, []string{"PEER", "STATE", "FOR", "SINCE", "PREFIXES", "PATHS", "WENT DOWN", "PROBLEMS"}, rows)
}
