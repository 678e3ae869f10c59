package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tiny is a module of Mooring's name with little in it: a program that prints with what it was stamped.
var tiny = map[string]string{
	"go.mod": "module github.com/mooring-ccm/mooring\n\ngo 1.26\n",
	"internal/version/version.go": `package version

var release, commit, date string

func Text() string { return release + " " + commit + " " + date }
`,
	"cmd/tiny/main.go": `package main

import (
	"fmt"

	"github.com/mooring-ccm/mooring/internal/version"
)

func main() { fmt.Println(version.Text()) }
`,
}

// TestStamp has the command build a program in a checkout of which Go is told to record nothing, in each of its states.
func TestStamp(t *testing.T) {
	command := filepath.Join(t.TempDir(), "gobuild")
	must(t, "", "go", "build", "-o", command, ".")
	dir := t.TempDir()
	for name, text := range tiny {
		write(t, filepath.Join(dir, name), text)
	}
	t.Setenv("GOFLAGS", "-buildvcs=false")
	t.Setenv("GOWORK", "off")
	stamped := func(want string) {
		t.Helper()
		must(t, dir, command, "-o", filepath.Join(dir, "bin"), "./cmd/tiny")
		if printed := must(t, dir, filepath.Join(dir, "bin", "tiny")); !regexp.MustCompile("^" + want + "$").MatchString(printed) {
			t.Errorf("the program prints %q, want %q", printed, want)
		}
	}
	stamped("")
	git := func(arguments ...string) {
		t.Helper()
		identity := []string{"-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"}
		must(t, dir, "git", append(identity, arguments...)...)
	}
	t.Setenv("GIT_COMMITTER_DATE", "2026-11-22T10:00:00Z")
	write(t, filepath.Join(dir, ".gitignore"), "bin\n")
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "Begin")
	stamped(`v0\.0\.0-20261122100000-[0-9a-f]{12} [0-9a-f]{40} 2026-11-22T10:00:00Z`)
	git("tag", "v0.1.0")
	stamped(`v0\.1\.0 [0-9a-f]{40} 2026-11-22T10:00:00Z`)
	write(t, filepath.Join(dir, "go.mod"), tiny["go.mod"]+"\n// changed\n")
	stamped(`v0\.1\.0-dirty [0-9a-f]{40}-dirty 2026-11-22T10:00:00Z`)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// must runs a program and returns what it prints.
func must(t *testing.T, dir, program string, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, arguments...)
	command.Dir = dir
	var stderr strings.Builder
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(arguments, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(output))
}
