package nodelifecycle

import "testing"

func TestLimitAsFlag(t *testing.T) {
	for text, want := range map[string]Limit{
		"25%": {Percent: 25}, "100%": {Percent: 100}, "1%": {Percent: 1}, "10": {Count: 10}, "0": {}, "0%": {},
	} {
		var got Limit
		if err := got.Set(text); err != nil || got != want {
			t.Errorf("Set(%q) = %+v, error %v; want %+v", text, got, err, want)
		}
		var again Limit
		if err := again.Set(got.String()); err != nil || again != got {
			t.Errorf("%+v is shown as %q, which is parsed as %+v, error %v", got, got.String(), again, err)
		}
	}
	for _, text := range []string{"", "%", "a", "-1", "-5%", "101%", "2.5%", "25 %", "99999999999999999999"} {
		got := Limit{Count: 7}
		if err := got.Set(text); err == nil || got != (Limit{Count: 7}) {
			t.Errorf("Set(%q) = %+v, error %v; want an error and nothing changed", text, got, err)
		}
	}
}
