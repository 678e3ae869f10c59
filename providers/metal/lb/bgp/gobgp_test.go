package bgp

import (
	"os"
	"regexp"
	"testing"
)

// Another version of the library may need other work-arounds, or none: each is to be tried with it.
func TestWorkaroundsAreForThisGoBGP(t *testing.T) {
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	required := regexp.MustCompile(`github.com/osrg/gobgp/v4 (v\S+)`).FindStringSubmatch(read("../../../../go.mod"))
	rooms := regexp.MustCompile(`(?m)^// \d\. .*\(GoBGP (v[^;]+); Test`).FindAllStringSubmatch(read("gobgp.go"), -1)
	if len(required) != 2 || len(rooms) != 6 {
		t.Fatalf("go.mod requires %q, and gobgp.go has %d work-arounds", required, len(rooms))
	}
	for _, room := range rooms {
		if room[1] != required[1] {
			t.Errorf("%q: go.mod requires %s; take the work-around out, see its tests fail, and name the new version", room[0], required[1])
		}
	}
}
