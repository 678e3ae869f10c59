package bench

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-ccm/mooring/dev/openstack/faultproxy"
)

func call(service, method, template string, status int) faultproxy.Call {
	return faultproxy.Call{Service: service, Method: method, Template: template, Status: status}
}

func results() []Result {
	few := Result{Program: "few", Phase: "join", Seconds: 1.25}
	few.count([]faultproxy.Call{
		call("compute", "GET", "/servers", 200), call("identity", "POST", "/tokens", 401), call("network", "GET", "/ports/{id}", 404),
		call("load-balancer", "GET", "/", 0),
	})
	many := Result{
		Program: "many", Phase: "join", Seconds: 2,
		Calls: faultproxy.Counts{{Service: "compute", Method: "GET", Template: "/servers"}: 16},
	}
	start := Result{Program: "few", Phase: "start"}
	return []Result{start, few, many}
}

func TestTable(t *testing.T) {
	want := `| phase | manager | keystone | nova | neutron | octavia | calls | refused | seconds |
|---|---|---|---|---|---|---|---|---|
| start | few | 0 | 0 | 0 | 0 | 0 | 0 | 0.0 |
| join | few | 1 | 1 | 1 | 1 | 4 | 2 | 1.2 |
| join | many | 0 | 16 | 0 | 0 | 16 | 0 | 2.0 |
`
	if diff := cmp.Diff(want, Table(results())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestKindsSayWhatWasRefused(t *testing.T) {
	want := `few, join
     1 compute GET /servers
     1 identity POST /tokens
     1 load-balancer GET /
     1 network GET /ports/{id}
     1 refused: identity POST /tokens: 401
     1 refused: load-balancer GET /: 0
`
	if diff := cmp.Diff(want, Kinds(results()[1:2])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRatios(t *testing.T) {
	want := "few: 4 calls, 25 % of 16\nmany: 16 calls, 100 % of 16\n"
	if diff := cmp.Diff(want, Ratios(results(), "join")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
