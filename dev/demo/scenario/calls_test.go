package scenario

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCalls(t *testing.T) {
	get := Call{Service: "nova", Method: "GET", Template: "/servers/{id}", Status: 200, Took: time.Second}
	post := Call{Service: "keystone", Method: "POST", Template: "/v3/auth/tokens", Status: 201}
	put := Call{Service: "neutron", Method: "PUT", Template: "/ports/{id}", Status: 200}
	before := modelOf(CallSeen{at(1), get}, CallSeen{at(2), post}, CallSeen{at(3), get}, CallSeen{at(4), get}, CallSeen{at(5), put})
	want := []Calls{
		{Kind: "keystone POST /v3/auth/tokens", Service: "keystone", Count: 1}, {Kind: "neutron PUT /ports/{id}", Service: "neutron", Count: 1},
		{Kind: "nova GET /servers/{id}", Service: "nova", Count: 3},
	}
	if diff := cmp.Diff(want, before.Calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	recent := []Call{post, get, get, put}
	if diff := cmp.Diff(recent, before.Recent); diff != "" {
		t.Errorf("recent calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"keystone", "neutron", "nova"}, before.Services()); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
	if got := before.CallsOf("nova"); got != 3 {
		t.Errorf("%d calls of nova, want 3", got)
	}
	after := before.Apply(CallSeen{at(6), get})
	if after.CallsOf("nova") != 4 || before.CallsOf("nova") != 3 || !cmp.Equal(before.Recent, recent) || !after.Now.Equal(at(6)) {
		t.Errorf("after one more call %+v, and before %+v", after, before)
	}
	if get.Writes() || post.Writes() || !put.Writes() {
		t.Error("which calls ask for a change is wrong")
	}
}
