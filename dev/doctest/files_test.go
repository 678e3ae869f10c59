package doctest

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

// fenced is a piece of YAML on a page, which may stand in an item of a list.
var fenced = regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```")

// TestFilesOfTheTutorial has the programs read the files that the tutorial tells to write.
func TestFilesOfTheTutorial(t *testing.T) {
	page, kinds := text(t, "docs/tutorial/first-nodes.md"), map[string]int{}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("token", []byte("secret\n"), 0o600); err != nil { // which the cloud config names
		t.Fatal(err)
	}
	for _, found := range fenced.FindAllStringSubmatch(page, -1) {
		file := regexp.MustCompile("(?m)^"+found[1]).ReplaceAllString(found[2], "")
		switch {
		case strings.Contains(file, "kind: Seed"):
			kinds["Seed"]++
			if seed, errs := cloudsim.ReadSeed([]byte(file)); len(errs) > 0 || len(seed.Instances) == 0 {
				t.Errorf("the seed: %v\n%s", errs, file)
			}
		case strings.Contains(file, "kind: CloudConfig"):
			kinds["CloudConfig"]++
			if _, err := sim.ReadConfig(strings.NewReader(file)); err != nil {
				t.Errorf("the cloud config: %v\n%s", err, file)
			}
		default:
			t.Errorf("nothing reads this file:\n%s", file)
		}
	}
	if kinds["Seed"] != 1 || kinds["CloudConfig"] != 1 {
		t.Errorf("the tutorial has %v: this test reads it wrongly", kinds)
	}
}
