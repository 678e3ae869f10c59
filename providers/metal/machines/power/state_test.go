package power

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/machines/nodestate"
)

func TestObservations(t *testing.T) {
	const valid = 30 * time.Second
	type attempt struct {
		at   int // seconds
		said string
	}
	for name, test := range map[string]struct {
		attempts []attempt
		at       int
		state    State
		since    int
	}{
		"nothing":                            {nil, 0, Unknown, 0},
		"on once":                            {[]attempt{{0, "on"}}, 1, On, 0},
		"off once":                           {[]attempt{{0, "off"}}, 1, Unknown, 0},
		"off twice":                          {[]attempt{{0, "off"}, {2, "off"}}, 2, Off, 0},
		"off twice, too soon":                {[]attempt{{0, "off"}, {1, "off"}}, 1, Unknown, 0},
		"off three times":                    {[]attempt{{0, "off"}, {1, "off"}, {2, "off"}}, 2, Off, 0},
		"off, on, off":                       {[]attempt{{0, "off"}, {2, "on"}, {4, "off"}}, 4, Unknown, 0},
		"off, unknown, off":                  {[]attempt{{0, "off"}, {2, "unknown"}, {4, "off"}}, 4, Unknown, 0},
		"off, an error, off":                 {[]attempt{{0, "off"}, {2, "error"}, {4, "off"}}, 4, Off, 0},
		"errors confirm nothing":             {[]attempt{{0, "off"}, {2, "error"}, {4, "error"}}, 4, Unknown, 0},
		"off, a long silence, off":           {[]attempt{{0, "off"}, {31, "off"}}, 31, Unknown, 0},
		"off, and confirmed after a silence": {[]attempt{{0, "off"}, {31, "off"}, {33, "off"}}, 33, Off, 31},
		"off, then errors":                   {[]attempt{{0, "off"}, {2, "off"}, {12, "error"}, {22, "error"}}, 32, Off, 0},
		"off, then errors for long":          {[]attempt{{0, "off"}, {2, "off"}, {12, "error"}, {22, "error"}}, 33, Unknown, 0},
		"on, then errors for long":           {[]attempt{{0, "on"}, {10, "error"}}, 31, Unknown, 0},
		"off, then on":                       {[]attempt{{0, "off"}, {2, "off"}, {12, "on"}}, 13, On, 12},
	} {
		t.Run(name, func(t *testing.T) {
			zero := time.Unix(0, 0)
			at := func(seconds int) time.Time { return zero.Add(time.Duration(seconds) * time.Second) }
			var h history
			for _, a := range test.attempts {
				switch a.said {
				case "error":
					h = h.failed(errors.New("no answer"))
				case "on":
					h = h.read(Reading{State: On}, at(a.at), valid)
				case "off":
					h = h.read(Reading{State: Off}, at(a.at), valid)
				default:
					h = h.read(Reading{State: Unknown}, at(a.at), valid)
				}
			}
			got := h.observe(at(test.at), valid)
			if got.State != test.state || got.State != Unknown && !got.Since.Equal(at(test.since)) {
				t.Errorf("%s since %s, want %s since %d", got.State, got.Since.UTC(), test.state, test.since)
			}
		})
	}
}

// Whatever controllers say, a machine only counts as off if the last two things that were said were off, a while apart, and lately.
func TestOffIsNeverGuessed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		valid := time.Duration(rapid.IntRange(2, 40).Draw(t, "valid")) * time.Second
		now := time.Unix(0, 0)
		var h history
		var offs []time.Time // the readings since anything else was said
		for range rapid.IntRange(0, 20).Draw(t, "attempts") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "pause")) * time.Second)
			switch said := rapid.IntRange(0, 5).Draw(t, "said"); said {
			case 0, 1, 2:
				h = h.read(Reading{State: Off}, now, valid)
				offs = append(offs, now)
			case 3:
				h = h.read(Reading{State: On}, now, valid)
				offs = nil
			case 4:
				h = h.read(Reading{State: Unknown}, now, valid)
				offs = nil
			default:
				h = h.failed(errors.New("no answer"))
			}
		}
		now = now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "later")) * time.Second)
		observed := h.observe(now, valid)
		if (observed.State == Off) != (observed.InstanceState() == provider.InstanceStopped) {
			t.Fatalf("%s is shown as %s", observed.State, observed.InstanceState())
		}
		if observed.State != Off {
			return
		}
		last := len(offs) - 1
		if last < 1 || offs[last].Sub(offs[0]) < ConfirmAfter || now.Sub(offs[last]) > valid || now.Sub(offs[last-1]) > 2*valid {
			t.Fatalf("off at %s on the word of %v", now, offs)
		}
	})
}

// Fencing acts on verified controllers only, whatever they say; out-of-service asks for trust where a machine is off.
func TestWhoseWordCounts(t *testing.T) {
	const unknown, on, unverified, off = nodestate.Unknown, nodestate.On, nodestate.Unverified, nodestate.Off
	for state, want := range map[State]struct {
		// The index is 0 without and 1 with the flag.
		verified, trusted [2]nodestate.Power
	}{
		Unknown: {[2]nodestate.Power{unknown, unknown}, [2]nodestate.Power{unknown, unknown}},
		On:      {[2]nodestate.Power{unverified, on}, [2]nodestate.Power{on, on}},
		Off:     {[2]nodestate.Power{unverified, off}, [2]nodestate.Power{unverified, off}},
	} {
		for i, flag := range []bool{false, true} {
			if got := (Observation{State: state, Verified: flag, Trusted: !flag}).VerifiedPower(); got != want.verified[i] {
				t.Errorf("state %v, verified %t: %d, want %d", state, flag, got, want.verified[i])
			}
			if got := (Observation{State: state, Verified: !flag, Trusted: flag}).TrustedPower(); got != want.trusted[i] {
				t.Errorf("state %v, trusted %t: %d, want %d", state, flag, got, want.trusted[i])
			}
		}
	}
}
