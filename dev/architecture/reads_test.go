package architecture

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// readers are the packages that decide about clusters. The tool decides nothing, and cloudsim is a cloud.
var readers = []string{"./ccm/...", "./extensions/...", "./internal/...", "./provider", "./providers/internal/...", "./providers/metal/...", "./providers/openstack/...", "./providers/sim"}

// TestEveryReadIsJudged holds what controllers and providers read of objects that others write against the page that says who writes it, and
// what a lie would reach. A field that is read for the first time, or by another package, is a decision that the page has to judge first.
func TestEveryReadIsJudged(t *testing.T) {
	const page, list = "dev/docs/trust.md", "testdata/reads.txt"
	found, err := reads(root, readers...)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 100 {
		t.Fatalf("%d fields are read: this test looks in the wrong place", len(found))
	}
	var now strings.Builder
	for _, what := range slices.Sorted(maps.Keys(found)) {
		slices.Sort(found[what])
		now.WriteString(what + ": " + strings.Join(found[what], " ") + "\n")
	}
	if *update {
		if err := os.WriteFile(list, []byte(now.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(before), "\n"), strings.Split(now.String(), "\n")); diff != "" {
		t.Errorf("what is read has changed (-before +now):\n%sSay in %s what a lie would reach, then: go test ./dev/architecture -run TestEveryReadIsJudged -update", diff, page)
	}
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	judged := firstColumn(string(text))
	used := map[string]bool{}
	for _, what := range slices.Sorted(maps.Keys(found)) {
		switch rows := rowsOf(judged, what); len(rows) {
		case 0:
			t.Errorf("%s does not say who writes %s, read by %s, and what a lie would reach", page, what, strings.Join(found[what], ", "))
		case 1:
			used[rows[0]] = true
		default:
			t.Errorf("%s says twice what a lie in %s would reach: %q", page, what, rows)
		}
	}
	for row := range judged {
		if !used[row] {
			t.Errorf("%s judges %s, which nothing reads", page, row)
		}
	}
}

// rowsOf returns the rows that judge a field: the one of its name, or of a beginning of its name with a star.
func rowsOf(judged map[string]int, what string) (rows []string) {
	if judged[what] > 0 {
		return []string{what}
	}
	for row := range judged {
		if beginning, ok := strings.CutSuffix(row, "*"); ok && strings.HasPrefix(what, beginning) {
			rows = append(rows, row)
		}
	}
	return rows
}

func TestReadsAreFound(t *testing.T) {
	found, err := reads(root, "./dev/architecture/testdata/reads")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"Node.metadata.annotations[example.com/key]", "Node.metadata.labels", "Node.metadata.name", "Node.spec.podCIDR", "Node.spec.taints", "Node.spec.taints.value",
		"Service by cloud-provider.DefaultLoadBalancerName", "Service by helpers.NeedsHealthCheck", "Service.status", "Service.status.loadBalancer.ingress",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(found))); diff != "" {
		t.Error(diff)
	}
	if rows := rowsOf(map[string]int{"Node.spec.*": 1, "Node.spec": 1, "Node.status*": 1}, "Node.spec.podCIDR"); !slices.Equal(rows, []string{"Node.spec.*"}) {
		t.Errorf("%q", rows)
	}
}
