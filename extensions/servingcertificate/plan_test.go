package servingcertificate

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDecide(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	ago := func(minutes ...int) (times []time.Time) {
		for _, m := range minutes {
			times = append(times, now.Add(-time.Duration(m)*time.Minute))
		}
		return times
	}
	type change func(*request, *facts, *policy)
	ask := func(name string) change {
		return func(r *request, _ *facts, _ *policy) { r.names = append(r.names, name) }
	}
	askIP := func(ip string) change {
		return func(r *request, _ *facts, _ *policy) { r.ips = append(r.ips, netip.MustParseAddr(ip)) }
	}
	allow := func(pattern string) change {
		return func(_ *request, _ *facts, p *policy) { p.DNS = []string{pattern} }
	}
	allowIP := func(cidr string) change {
		return func(_ *request, _ *facts, p *policy) {
			p.CIDRs = []netip.Prefix{netip.MustParsePrefix(cidr)}
		}
	}
	called := func(node string) change {
		return func(r *request, _ *facts, _ *policy) { r.node, r.names = node, append(r.names, node) }
	}
	reports := func(name string) change {
		return func(_ *request, f *facts, _ *policy) { f.names = append(f.names, name) }
	}
	apiServer := func(host string) change { return func(_ *request, _ *facts, p *policy) { p.APIServer = host } }
	domain := func(name string) change { return func(_ *request, _ *facts, p *policy) { p.ClusterDomain = name } }
	denying := func(d denyPolicy) change { return func(_ *request, _ *facts, p *policy) { p.Deny = d } }
	invalid := func(r *request, _ *facts, _ *policy) { r.problems = []string{"it is forged"} }
	noNode := func(_ *request, f *facts, _ *policy) { *f = facts{} }
	foreign := func(_ *request, f *facts, _ *policy) { f.ours = false }
	unknown := func(_ *request, f *facts, _ *policy) { f.known, f.unknown = false, "timeout" }
	asking := func(_ *request, f *facts, _ *policy) { f.asking = true }
	old := func(_ *request, f *facts, _ *policy) { f.fresh = false }
	unasked := func(r *request, _ *facts, _ *policy) { r.node, r.problems = "", []string{"no node"} }
	approved := func(minutes ...int) change {
		return func(_ *request, f *facts, _ *policy) { f.approved = ago(minutes...) }
	}
	for name, test := range map[string]struct {
		changes []change
		want    kind
		reason  string
		says    string
		after   time.Duration
	}{
		"all is reported":                     {nil, approve, ReasonApproved, "", 0},
		"a name of another instance":          {[]change{ask("n-2.example.com")}, wait, ReasonNotReported, "n-2.example.com", 0},
		"an address of another instance":      {[]change{askIP("10.0.0.2")}, wait, ReasonNotReported, "10.0.0.2", 0},
		"an address of another, denied":       {[]change{askIP("10.0.0.2"), denying(denyUnknown)}, deny, ReasonNotReported, "10.0.0.2", 0},
		"not denied for what may be learned":  {[]change{askIP("10.0.0.2"), denying(denyInvalid)}, wait, ReasonNotReported, "10.0.0.2", 0},
		"both are named":                      {[]change{ask("a"), askIP("10.0.0.2")}, wait, ReasonNotReported, "a, 10.0.0.2", 0},
		"the node's own name is not reported": {[]change{ask("n-1")}, wait, ReasonNotReported, "n-1", 0},
		"the node's own name is allowed":      {[]change{ask("n-1"), allow("{node}")}, approve, ReasonApproved, "", 0},
		"another node's name is not":          {[]change{ask("n-2"), allow("{node}")}, wait, ReasonNotReported, "n-2", 0},
		"a pattern in capitals":               {[]change{ask("x.rack.example"), allow("*.RACK.example")}, approve, ReasonApproved, "", 0},
		"a star is no dot":                    {[]change{ask("a.b.rack.example"), allow("*.rack.example")}, wait, ReasonNotReported, "a.b.rack.example", 0},
		"a star is not everything":            {[]change{ask("kubernetes.default.svc"), allow("*")}, wait, ReasonNotReported, "kubernetes", 0},
		"an address of the API server":        {[]change{askIP("10.9.0.1"), allowIP("10.9.0.0/16"), apiServer("10.9.0.1")}, wait, ReasonNotReported, "10.9.0.1", 0},
		"a name of the API server":            {[]change{ask("api.example"), allow("*.example"), apiServer("API.example")}, wait, ReasonNotReported, "api.example", 0},
		"a node called like the API server":   {[]change{called("kubernetes.default.svc"), allow("{node}")}, wait, ReasonNotReported, "kubernetes.default.svc", 0},
		"in one label":                        {[]change{called("kubernetes"), allow("{node}")}, wait, ReasonNotReported, "kubernetes", 0},
		"in the domain of the cluster":        {[]change{called("kubernetes.default.svc.cluster.local"), allow("{node}")}, wait, ReasonNotReported, "kubernetes", 0},
		"a node named as another host":        {[]change{called("registry.example.com"), allow("{node}")}, wait, ReasonNotReported, "registry.example.com", 0},
		"a Service":                           {[]change{ask("web.default.svc"), allow("*.default.svc")}, wait, ReasonNotReported, "web.default.svc", 0},
		"the API server, by the cloud":        {[]change{called("kubernetes"), reports("kubernetes")}, wait, ReasonNotReported, "kubernetes", 0},
		"a node called almost like it":        {[]change{called("kubernetes-7"), allow("{node}")}, wait, ReasonNotReported, "kubernetes-7", 0},
		"almost, by the cloud":                {[]change{called("kubernetes-7"), reports("kubernetes-7")}, approve, ReasonApproved, "", 0},
		"almost, by a pattern":                {[]change{ask("kubernetes-api.example"), allow("*.example")}, wait, ReasonNotReported, "kubernetes-api.example", 0},
		"a name in the cluster's domain":      {[]change{ask("a.default.pod.k8s.corp"), reports("a.default.pod.k8s.corp"), domain("K8S.corp")}, wait, ReasonNotReported, "k8s.corp", 0},
		"the cluster's domain":                {[]change{ask("k8s.corp"), reports("k8s.corp"), domain("k8s.corp")}, wait, ReasonNotReported, "k8s.corp", 0},
		"in the domain that is usual":         {[]change{ask("web.cluster.local"), reports("web.cluster.local"), domain("k8s.corp")}, wait, ReasonNotReported, "web.cluster.local", 0},
		"beside the cluster's domain":         {[]change{ask("a.myk8s.corp"), reports("a.myk8s.corp"), domain("k8s.corp")}, approve, ReasonApproved, "", 0},
		"a control plane of one machine":      {[]change{ask("api.example"), reports("api.example"), apiServer("API.example")}, approve, ReasonApproved, "", 0},
		"the API server with its last dot":    {[]change{ask("api.example"), allow("*.example"), apiServer("api.example.")}, wait, ReasonNotReported, "api.example", 0},
		"an address in an allowed network":    {[]change{askIP("10.9.0.1"), allowIP("10.9.0.0/16")}, approve, ReasonApproved, "", 0},
		"an address outside of it":            {[]change{askIP("10.8.0.1"), allowIP("10.9.0.0/16")}, wait, ReasonNotReported, "10.8.0.1", 0},
		"forged":                              {[]change{invalid}, wait, ReasonInvalid, "it is forged", 0},
		"forged, denied":                      {[]change{invalid, denying(denyInvalid)}, deny, ReasonInvalid, "it is forged", 0},
		"forged, denied with the unknown":     {[]change{invalid, denying(denyUnknown)}, deny, ReasonInvalid, "it is forged", 0},
		"forged by no node, denied":           {[]change{unasked, noNode, denying(denyInvalid)}, deny, ReasonInvalid, "no node", 0},
		"forged by a foreign node":            {[]change{invalid, foreign, denying(denyUnknown)}, ignore, "", "", 0},
		"the node is not there yet":           {[]change{noNode, denying(denyUnknown)}, wait, ReasonNoNode, "n-1", 0},
		"a foreign node":                      {[]change{foreign, denying(denyUnknown)}, ignore, "", "", 0},
		"the cloud does not answer":           {[]change{unknown, denying(denyUnknown)}, wait, ReasonNoInstance, "timeout", 0},
		"the cloud is being asked":            {[]change{unknown, asking, denying(denyUnknown)}, wait, "", "", 0},
		"an old answer does not know it":      {[]change{unknown, old, denying(denyUnknown)}, wait, "", "", 0},
		"an old answer lacks the address":     {[]change{askIP("10.0.0.2"), old, denying(denyUnknown)}, wait, "", "", 0},
		"an old answer has all":               {[]change{old}, approve, ReasonApproved, "", 0},
		"five within the hour":                {[]change{approved(50, 40, 30, 20, 10)}, approve, ReasonApproved, "", 0},
		"six within the hour":                 {[]change{approved(55, 50, 40, 30, 20, 10)}, wait, ReasonTooMany, "6 requests", 5 * time.Minute},
		"six, one of them an hour ago":        {[]change{approved(60, 50, 40, 30, 20, 10)}, approve, ReasonApproved, "", 0},
		"eight, in no order":                  {[]change{approved(10, 58, 50, 40, 59, 20, 30, 1)}, wait, ReasonTooMany, "6 requests", 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			asked := request{node: "n-1", names: []string{"n-1.example.com"}, ips: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}
			known := facts{exists: true, ours: true, known: true, fresh: true, names: []string{"n-1.example.com"}, ips: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1")}}
			policy := defaultPolicy()
			for _, c := range test.changes {
				c(&asked, &known, &policy)
			}
			got := planFor([]request{asked}, known, policy, now)[0]
			if got.kind != test.want || got.reason != test.reason || got.after != test.after || !strings.Contains(got.message, test.says) {
				t.Errorf("decided %+v, want %s %s %q after %s", got, test.want, test.reason, test.says, test.after)
			}
		})
	}
}

// An approval leaves less for the requests after it, and an old answer is asked for again before it counts against a request.
func TestPlanFor(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	known := facts{exists: true, ours: true, known: true, ips: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}
	mine := request{node: "n-1", ips: known.ips}
	other := request{node: "n-1", ips: []netip.Addr{netip.MustParseAddr("10.0.0.2")}}
	policy := defaultPolicy()
	policy.PerHour = 2
	var got []kind
	for _, decided := range planFor([]request{mine, other, mine, mine}, known, policy, now) {
		got = append(got, decided.kind)
		if decided.ask != (len(got) == 2) {
			t.Errorf("request %d: the cloud is to be asked: %v", len(got), decided.ask)
		}
	}
	if want := []kind{approve, wait, approve, wait}; !slices.Equal(got, want) {
		t.Errorf("planned %q, want %q", got, want)
	}
}

func TestPolicies(t *testing.T) {
	for pattern, want := range map[string]bool{
		"{node}": true, "{node}.example.com": true, "*.rack-1.example.com": true, "worker-*": true, "a.example.com": true, "W.example": true,
		"": false, "*": false, "*.*": false, "a..b": false, "a b": false, "[a-z].example.com": false, "{nod}": false, "?.example.com": false, ".": false, "-a": false,
	} {
		if err := parsePattern(pattern); (err == nil) != want {
			t.Errorf("pattern %q: %v", pattern, err)
		}
	}
	for cidr, want := range map[string]bool{
		"10.0.0.0/8": true, "2001:db8::/64": true, "10.0.0.1/32": true, "10.0.0.1/8": false, "0.0.0.0/0": false, "::/0": false, "10.0.0.1": false, "": false,
	} {
		if _, err := parseCIDR(cidr); (err == nil) != want {
			t.Errorf("CIDR %q: %v", cidr, err)
		}
	}
	if problems := (&servingCertificateFlags{policy: policy{DNS: []string{"*"}}, deny: "Always"}).validate(); len(problems) != 4 {
		t.Errorf("problems %v, want 4", problems)
	}
	if problems := Controller().Validate(); len(problems) > 0 {
		t.Errorf("the default policy has problems: %v", problems)
	}
}
