package view_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/view"
	"github.com/mooring-ccm/mooring/internal/names"
)

const racks = `
# TYPE mooring_metal_bgp_session_up gauge
mooring_metal_bgp_session_up{peer="rack-1"} 1
mooring_metal_bgp_session_up{peer="rack-2"} 1
mooring_metal_bgp_session_up{peer="rack-3"} 0
# TYPE mooring_metal_bgp_session_state gauge
mooring_metal_bgp_session_state{peer="rack-1",state="Established"} 1
mooring_metal_bgp_session_state{peer="rack-2",state="Established"} 1
mooring_metal_bgp_session_state{peer="rack-3",state="Active"} 1
mooring_metal_bgp_session_state{peer="rack-3",state="Established"} 0
# TYPE mooring_metal_bgp_session_problem gauge
mooring_metal_bgp_session_problem{peer="rack-2",family="IPv6",problem="FamilyNotNegotiated"} 1
mooring_metal_bgp_session_problem{peer="rack-2",family="IPv4",problem="NoAddPath"} 1
mooring_metal_bgp_session_problem{peer="rack-3",family="",problem="NoAnswer"} 1
# TYPE mooring_metal_bgp_prefixes gauge
mooring_metal_bgp_prefixes{peer="rack-1",family="IPv4"} 40
mooring_metal_bgp_prefixes{peer="rack-1",family="IPv6"} 2
mooring_metal_bgp_prefixes{peer="rack-2",family="IPv4"} 40
# TYPE mooring_metal_bgp_paths gauge
mooring_metal_bgp_paths{peer="rack-1",family="IPv4"} 120
mooring_metal_bgp_paths{peer="rack-2",family="IPv4"} 40
# TYPE mooring_metal_bgp_session_flaps_total counter
mooring_metal_bgp_session_flaps_total{peer="rack-3"} 3
# TYPE mooring_metal_bgp_session_last_transition_timestamp_seconds gauge
mooring_metal_bgp_session_last_transition_timestamp_seconds{peer="rack-3"} 1772366340
`

func TestSessions(t *testing.T) {
	now := time.Unix(1772366400, 0)
	status := view.Of(view.Seen{Now: now, Metrics: families(t, racks)})
	want := `
BGP sessions of the replica that was asked: 2 of 3 up
PEER    STATE        FOR  PREFIXES  PATHS  WENT DOWN  PROBLEMS
rack-3  Active       1m   0         0      3          NoAnswer
rack-2  Established  -    40        40     0          FamilyNotNegotiated IPv6, NoAddPath IPv4
rack-1  Established  -    42        120    0          -

Nodes: not known
`
	if text := status.Text(view.Style{}); !strings.Contains(text, want) || strings.Contains(text, "Problem:") {
		t.Errorf("it lacks %s\n%s", want, text)
	}
}

// TestNoSessionComesFirst has no session at all, by the metrics and by what Services say.
func TestNoSessionComesFirst(t *testing.T) {
	lost := service("web", said("LoadBalancerReady", "True", "Provided", ""), said(names.ConditionAnnounced, "False", "NoSession", "no router"))
	waits := service("waits", said("LoadBalancerReady", "False", "Throttled", "quota"))
	fine := service("fine", said("LoadBalancerReady", "True", "Provided", ""), said(names.ConditionAnnounced, "True", "Announced", ""))
	down := strings.NewReplacer("\"} 1\nmooring_metal_bgp_session_up", "\"} 0\nmooring_metal_bgp_session_up", `"Established"} 1`, `"Established"} 0`).Replace(racks)
	status := view.Of(view.Seen{
		Now: noon, Services: []corev1.Service{waits, fine, lost}, Metrics: families(t, down),
		Nodes: []corev1.Node{},
	})
	want := []string{
		"no BGP session of the replica that was asked is up: it announces nothing to routers",
		"1 of 3 load balancers are announced to no router, by the condition metal.mooring.dev/Announced with reason NoSession",
	}
	if diff := cmp.Diff(want, status.Problems); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if text := status.Text(view.Style{}); !strings.HasPrefix(text, "Problem: "+want[0]+"\nProblem: "+want[1]+"\nLeader: ") {
		t.Errorf("it begins otherwise:\n%s", text)
	}
	if problems := status.ServiceProblems(); len(problems) != 2 || problems[0].Name != "web" {
		t.Errorf("the gravest are %+v", problems)
	}
	page := textOf(t, pageOf(t, view.Seen{Now: noon, Services: []corev1.Service{lost}, Metrics: families(t, down)}))
	for _, want := range []string{"Problem no BGP session", "rack-3 active", "NoAnswer"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}
