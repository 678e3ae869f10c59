package doctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// goFile is a file that a page shows whole: its name begins the line before the block.
var goFile = regexp.MustCompile("(?m)^`([\\w/]+\\.go)`.*:\n\n```go\n((?s:.*?))```")

// TestProviderQuickstart follows the quickstart for providers in an empty folder: it writes the page's files and runs its commands. This
// checkout stands for the clone.
func TestProviderQuickstart(t *testing.T) {
	if testing.Short() {
		t.Skip("links a whole manager, which -short leaves out")
	}
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	page, written, elsewhere := text(t, "docs/quickstart/provider.md"), t.TempDir(), t.TempDir()
	files := goFile.FindAllStringSubmatch(page, -1)
	if blocks := strings.Count(page, "```go\n"); len(files) != 3 || blocks != 3 {
		t.Fatalf("the page has %d files in %d blocks of Go, want three", len(files), blocks)
	}
	for _, file := range files {
		path := filepath.Join(written, file[1])
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(file[2]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := []string{"set -e"}
	for _, command := range Commands(page) {
		switch {
		case strings.HasPrefix(command, "git clone "):
			command = `ln -s "$CHECKOUT" mooring`
		case command == "go mod tidy":
			command = `cp -r "$WRITTEN"/. . && ` + command
		}
		script = append(script, command)
	}
	script = append(script, "go test -v -count=1 ./mycloud", "./mycloud-ccm --version")
	command := exec.CommandContext(t.Context(), "sh", "-c", strings.Join(script, "\n"))
	command.Env = append(os.Environ(), "CHECKOUT="+checkout, "WRITTEN="+written, "GOWORK=off", "CGO_ENABLED=0") // as programs are shipped
	command.Dir = elsewhere
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, want := range []string{"ok  \texample.com/mycloud-ccm/mycloud", "--- PASS: TestConformance/instances-found-by-name", "Kubernetes v1."} {
		if !strings.Contains(string(output), want) {
			t.Errorf("the commands do not say %q:\n%s", want, output)
		}
	}
}
