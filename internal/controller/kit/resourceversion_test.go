package kit

import "testing"

func TestOlder(t *testing.T) {
	for _, test := range []struct {
		version, than string
		want          bool
	}{
		{"8", "9", true},
		{"9", "9", false},
		{"10", "9", false}, // not as texts
		{"", "9", false},
		{"9", "", false},
		{"x", "9", false},
	} {
		if got := Older(test.version, test.than); got != test.want {
			t.Errorf("%q is older than %q: %t, want %t", test.version, test.than, got, test.want)
		}
	}
}
