package doctest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/mooring-ccm/mooring/dev/localcluster"
)

// compatibility are the files that say what Mooring works with: the page for people, and where the facts are.
const (
	compatibilityPage = "docs/reference/compatibility.md"
	chosenVersions    = "dev/integration/versions.txt"
)

// TestCompatibility holds the table of versions against the modules, the chart and what the tests run on.
func TestCompatibility(t *testing.T) {
	page := fileOf(t, compatibilityPage)
	modules := fileOf(t, "go.mod")
	oldest := firstMatch(t, fileOf(t, "deploy/charts/mooring/Chart.yaml"), `kubeVersion: ">=(\d+\.\d+)\.0-0"`)
	tested := localcluster.Versions()
	newest := version.MustParseSemantic(tested[len(tested)-1])
	row := fmt.Sprintf("| main | %s | %s | %s | %s to %d.%d |\n",
		firstMatch(t, modules, `\tk8s.io/client-go (v\S+)`), firstMatch(t, modules, `\tsigs.k8s.io/controller-runtime (v\S+)`),
		strings.Join(tested, ", "), oldest, newest.Major(), newest.Minor()+1)
	if !strings.Contains(page, row) {
		t.Errorf("%s lacks the row\n%s", compatibilityPage, row)
	}
	for _, kubernetes := range tested {
		file := "go.mod"
		if parsed := version.MustParseSemantic(kubernetes); kubernetes != localcluster.DefaultVersion {
			file = fmt.Sprintf("kubernetes-%d.%d.mod", parsed.Major(), parsed.Minor())
		}
		etcd := firstMatch(t, fileOf(t, "dev/localcluster/binaries/"+file), `\tgo.etcd.io/etcd/server/v3 (v\S+)`)
		if row := fmt.Sprintf("| %s | %s | ", kubernetes, etcd); !strings.Contains(page, row) {
			t.Errorf("%s lacks a row that begins with %s", compatibilityPage, row)
		}
	}
}

// TestIntegrationTestsHaveAVersion shows that CI runs each folder of integration tests on the oldest or the newest version, and on each of
// them a fair share: a folder that is not in the list is tested on the default version only.
func TestIntegrationTestsHaveAVersion(t *testing.T) {
	chosen, share := map[string]string{}, map[string]int{}
	for line := range strings.Lines(fileOf(t, chosenVersions)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(fields) != 2 || chosen[fields[0]] != "" {
			t.Fatalf("%s: %q is no folder and version, or is there twice", chosenVersions, line)
		}
		chosen[fields[0]] = fields[1]
		share[fields[1]]++
	}
	tests, err := filepath.Glob(filepath.Join(root, "dev/integration/*/*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	folders := map[string]bool{}
	for _, file := range tests {
		folders[filepath.Base(filepath.Dir(file))] = true
	}
	if len(folders) < 5 {
		t.Fatalf("%d folders of integration tests found: this test looks in the wrong place", len(folders))
	}
	for folder := range folders {
		if chosen[folder] == "" {
			t.Errorf("%s has no version for %s", chosenVersions, folder)
		}
		delete(chosen, folder)
	}
	for folder := range chosen {
		t.Errorf("%s names %s, where there are no tests", chosenVersions, folder)
	}
	var others []string
	for _, kubernetes := range localcluster.Versions() {
		if kubernetes != localcluster.DefaultVersion {
			others = append(others, strings.TrimPrefix(kubernetes[:strings.LastIndex(kubernetes, ".")], "v"))
		}
	}
	ends := []string{others[0], others[len(others)-1]}
	for minor, count := range share {
		if !slices.Contains(ends, minor) {
			t.Errorf("%s names %s, want one of %v: the default version has all folders", chosenVersions, minor, ends)
		} else if least := len(folders) / 3; count < least {
			t.Errorf("%s chooses %d folders for %s, want at least %d", chosenVersions, count, minor, least)
		}
	}
	if len(share) != len(ends) {
		t.Errorf("%s has folders for %d versions, want %v", chosenVersions, len(share), ends)
	}
}

// fileOf returns the text of a file of the project.
func fileOf(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// firstMatch returns what the group of a pattern matches first.
func firstMatch(t *testing.T, text, pattern string) string {
	t.Helper()
	match := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if match == nil {
		t.Fatalf("no match of %s", pattern)
	}
	return match[1]
}
