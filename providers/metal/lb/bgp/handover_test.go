package bgp

import (
	"strings"
	"testing"
	"time"
)

// The times are those since the sessions began.
func TestHandover(t *testing.T) {
	const second = time.Second
	up := func(updates uint64) transmission { return transmission{up: true, updates: updates, expects: true} }
	waiting := func(updates uint64, bytes uint32) transmission {
		return transmission{up: true, updates: updates, expects: true, unacknowledged: bytes}
	}
	type look struct {
		at   time.Duration
		seen map[string]transmission
		// missing is in the error; empty for none.
		missing string
	}
	for name, looks := range map[string][]look{
		"without a router there is nothing to wait for": {{0, nil, ""}},
		"a router has it once all is sent": {
			{0, map[string]transmission{"a": {expects: true}}, "a has no session"},
			{2 * second, map[string]transmission{"a": up(0)}, "a has not received everything"},
			{5 * second, map[string]transmission{"a": up(0)}, "a has not received everything"},
			{6 * second, map[string]transmission{"a": up(7)}, "a has not received everything"},
			{6500 * time.Millisecond, map[string]transmission{"a": up(9)}, "a has not received everything"},
			{7500 * time.Millisecond, map[string]transmission{"a": up(9)}, ""},
			{8 * second, map[string]transmission{"a": {}}, ""}, // ready stays ready
		},
		"what the router's kernel has not confirmed it does not have": {
			{0, map[string]transmission{"a": waiting(9, 100)}, "a has not received"},
			{9 * second, map[string]transmission{"a": waiting(9, 100)}, "a has not received"},
			{10 * second, map[string]transmission{"a": waiting(9, 0)}, "a has not received"},
			{11 * second, map[string]transmission{"a": waiting(9, 0)}, ""},
		},
		"a router is given time to read a large table": {
			{0, map[string]transmission{"a": {up: true, updates: 9, expects: true, paths: 80_000}}, "a has not received"},
			{4900 * time.Millisecond, map[string]transmission{"a": {up: true, updates: 9, expects: true, paths: 80_000}}, "a has not received"},
			{5 * second, map[string]transmission{"a": {up: true, updates: 9, expects: true, paths: 80_000}}, ""},
		},
		"nothing to send is sent": {
			{0, map[string]transmission{"a": {up: true}}, "a has not received"},
			{second, map[string]transmission{"a": {up: true}}, ""},
		},
		"a router that is away is waited for, not forever": {
			{0, map[string]transmission{"a": up(3), "b": {expects: true}}, "b has no session"},
			{29 * second, map[string]transmission{"a": up(3), "b": {expects: true}}, "b has no session"},
			{30 * second, map[string]transmission{"a": up(3), "b": {expects: true}}, ""},
		},
		"a table that never rests is not waited for without end": {
			{0, map[string]transmission{"a": up(3)}, "a has not"},
			{119 * second, map[string]transmission{"a": up(30)}, "a has not"},
			{120 * second, map[string]transmission{"a": up(31)}, ""},
		},
		"a router whose session breaks off in the transfer is waited for longer": {
			{0, map[string]transmission{"a": up(3), "b": up(0)}, "b has not"},
			{60 * second, map[string]transmission{"a": up(3), "b": {expects: true}}, "b has no session"},
			{119 * second, map[string]transmission{"a": up(3), "b": up(0)}, "b has not"},
			{120 * second, map[string]transmission{"a": up(3), "b": up(0)}, ""},
		},
		"a replica without sessions replaces no other": {
			{0, map[string]transmission{"a": {expects: true}, "b": up(0)}, "a has no session"},
			{time.Hour, map[string]transmission{"a": {expects: true}, "b": up(0)}, "b has not received"},
		},
		"another session begins anew": {
			{0, map[string]transmission{"a": up(5)}, "a has not"},
			{second / 2, map[string]transmission{"a": {expects: true}}, "a has no session"},
			{second, map[string]transmission{"a": up(5)}, "a has not"},
			{5 * second, map[string]transmission{"a": up(5)}, "a has not"}, // the five were sent before
			{6 * second, map[string]transmission{"a": up(8)}, "a has not"},
			{7 * second, map[string]transmission{"a": up(8)}, ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, began := handover{}, time.Now()
			for _, look := range looks {
				err := h.observe(began.Add(look.at), look.seen)
				if (err == nil) != (look.missing == "") || err != nil && !strings.Contains(err.Error(), look.missing) {
					t.Fatalf("after %s: %v, want %q", look.at, err, look.missing)
				}
			}
		})
	}
}
