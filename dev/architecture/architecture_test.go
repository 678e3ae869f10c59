package architecture

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root is the folder of the project, from this package's.
const root = "../.."

func TestArrows(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...")
	command.Dir = root
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("listing the project's packages: %v", err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(output)))
	packages := 0
	for {
		var listed struct {
			ImportPath string
			Imports    []string
		}
		if err := decoder.Decode(&listed); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages++
		var ours []string
		for _, imported := range listed.Imports {
			if path, found := strings.CutPrefix(imported, Module+"/"); found {
				ours = append(ours, path)
			}
		}
		for _, broken := range violations(strings.TrimPrefix(listed.ImportPath, Module+"/"), ours) {
			t.Error(broken)
		}
	}
	if packages < 3 {
		t.Errorf("go list found %d packages: this test looks at too few", packages)
	}
}

func TestArrowsAreForbidden(t *testing.T) {
	for name, test := range map[string]struct{ importer, imported string }{
		"the contract stands on nothing":         {"provider", "internal/cloud"},
		"a provider sees the contract only":      {"providers/sim", "internal/instances"},
		"a controller never imports another":     {"internal/controller/node", "internal/controller/route"},
		"a controller knows nothing of the ccm":  {"internal/controller/node", "ccm"},
		"the manager names no provider":          {"ccm", "providers/sim"},
		"the manager names no extension":         {"ccm", "extensions/autoscaler"},
		"nothing internal names an extension":    {"internal/controller/node", "extensions/autoscaler"},
		"an extension uses the public API":       {"extensions/autoscaler", "internal/instances"},
		"the daemon is composition only":         {"cmd/cloud-controller-manager", "internal/cloud"},
		"the manager links nothing of the tool":  {"ccm", "internal/tool/progress"},
		"nothing imports a program":              {"dev/e2e", "cmd/mooring"},
		"the product imports no dev":             {"cmd/mooring", "dev/localcluster"},
		"a package without a room is not a room": {"internal/misc", "provider"},
		"what tests wait with is for tests":      {"providers/sim", "dev/poll"},
	} {
		t.Run(name, func(t *testing.T) {
			if len(violations(test.importer, []string{test.imported})) == 0 {
				t.Errorf("%s -> %s passes", test.importer, test.imported)
			}
		})
	}
	if broken := violations("internal/controller/node", []string{"internal/instances", "internal/controller/node/x"}); broken != nil {
		t.Errorf("allowed arrows are reported: %v", broken)
	}
}

// pureFiles returns the folders that hold a plan.go or a desired.go, each with those files.
func pureFiles(t *testing.T) map[string][]string {
	t.Helper()
	folders := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); name == "plan.go" || name == "desired.go" {
			folders[filepath.Dir(path)] = append(folders[filepath.Dir(path)], path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return folders
}

func TestPlansArePure(t *testing.T) {
	folders := pureFiles(t)
	if len(folders) == 0 {
		t.Fatal("no plan.go or desired.go found: this test looks in the wrong place")
	}
	for folder, files := range folders {
		for _, file := range files {
			found, err := impurities(file, nil)
			if err != nil {
				t.Error(err)
			}
			for _, line := range found {
				t.Error(line)
			}
		}
		// They compile without their neighbors, so nothing impure can reach them through the package.
		arguments := append([]string{"build", "-o", os.DevNull}, files...)
		command := exec.CommandContext(t.Context(), "go", arguments...)
		command.Env = append(os.Environ(), "CGO_ENABLED=0") // as programs are shipped, so the build cache has it
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("the pure files of %s do not compile on their own: %v\n%s", folder, err, output)
		}
	}
}

func TestImpuritiesAreFound(t *testing.T) {
	for name, source := range map[string]string{
		"client":    `package x; import _ "k8s.io/client-go/kubernetes"`,
		"log":       `package x; import _ "k8s.io/klog/v2"`,
		"file":      `package x; import _ "os"`,
		"context":   `package x; import _ "context"`,
		"clock":     `package x; import "time"; func f() time.Time { return time.Now() }`,
		"goroutine": `package x; func f() { go f() }`,
		"state":     `package x; var seen map[string]bool`,
		"output":    `package x; import "fmt"; func f() { fmt.Println() }`,
	} {
		t.Run(name, func(t *testing.T) {
			found, err := impurities(name+".go", source)
			if err != nil || len(found) == 0 {
				t.Errorf("found %v, error %v; want one finding in %s", found, err, source)
			}
		})
	}
	found, err := impurities("pure.go", `package x; import "time"; var table = map[string]int{}; func f(now time.Time) bool { return now.IsZero() }`)
	if err != nil || found != nil {
		t.Errorf("a pure file is reported: %v, error %v", found, err)
	}
}
