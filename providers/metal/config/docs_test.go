package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block finds the examples of a page that are files of their own.
var block = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// examples returns the examples of a page of the documentation that are of a kind.
func examples(t *testing.T, page, kind string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../docs", page))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, match := range block.FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(match[1], "kind: "+kind+"\n") {
			found = append(found, match[1])
		}
	}
	if len(found) == 0 {
		t.Fatalf("%s has no example of a %s", page, kind)
	}
	return found
}

// What people copy from the documentation loads.
func TestExamplesLoad(t *testing.T) {
	lists := examples(t, "how-to/metal-machines.md", MachineListKind)
	for _, page := range []string{"how-to/metal-machines.md", "how-to/metal-sleep.md", "how-to/metal-layer-2.md", "reference/metal-config.md", "quickstart/metal.md"} {
		for _, example := range examples(t, page, CloudConfigKind) {
			list := lists[0]
			if strings.Contains(example, "name: n1") {
				list = listHead // the example has its own machines
			}
			dir := write(t, map[string]string{"config.yaml": example, "racks/rack-1.yaml": list})
			config, err := Load(filepath.Join(dir, "config.yaml"))
			balances := len(config.Pools) > 0 && (config.BGP != nil || config.L2 != nil)
			if err != nil || len(config.Inventory.Machines) == 0 && !balances { // load balancers are shown without an inventory
				t.Errorf("an example of %s does not load: %v\n%s", page, err, example)
			}
		}
	}
	snippet := regexp.MustCompile(`(?m)^  bmc: .*$`)
	text, err := os.ReadFile("../../../docs/how-to/metal-machines.md")
	if err != nil {
		t.Fatal(err)
	}
	ways := snippet.FindAllString(string(text), -1)
	if len(ways) != 3 {
		t.Errorf("the page shows %d ways to ask a BMC, want 3", len(ways))
	}
	for _, way := range ways {
		defaults := "  defaults: {bmc: {credentials: {username: a, passwordFile: b}}}\n"
		machine := "  machines:\n  - name: n1\n    addresses: [{address: 10.0.0.1}]\n  " + way + "\n"
		if _, err := Read(strings.NewReader(head+"inventory:\n"+defaults+machine), ""); err != nil {
			t.Errorf("%s does not load: %v", way, err)
		}
	}
}
