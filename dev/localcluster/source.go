package localcluster

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

const modulePath = "github.com/mooring-ccm/mooring"

// source is what the executables are built from, and how.
type source struct {
	dir    string   // of the nested module
	pinned          // the version of Kubernetes
	flags  []string // of go build
	env    []string // of go build
	key    string   // changes when anything does that changes the executables
}

// findSource finds the nested module from the working directory.
func findSource(ctx context.Context, pin pinned) (source, error) {
	root, err := moduleRoot()
	if err != nil {
		return source{}, err
	}
	found := source{
		pinned: pin,
		dir:    filepath.Join(root, "dev", "localcluster", "binaries"),
		flags: []string{
			"-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags=" + linkerFlags(pin.version),
		},
		// Without cgo the result is the same on a machine with a C compiler and on one without.
		env: []string{"CGO_ENABLED=0", "GOWORK=off", "GOOS=" + runtime.GOOS, "GOARCH=" + runtime.GOARCH},
	}
	if pin.modFile != "go.mod" {
		found.flags = append(found.flags, "-modfile="+pin.modFile)
	}
	found.key, err = found.hash(ctx)
	return found, err
}

// linkerFlags make the programs report the version that they are built from; a plain build says v0.0.0-master.
func linkerFlags(kubernetes string) string {
	parsed := version.MustParseSemantic(kubernetes)
	values := map[string]string{
		"gitVersion":   kubernetes,
		"gitMajor":     fmt.Sprint(parsed.Major()),
		"gitMinor":     fmt.Sprint(parsed.Minor()),
		"gitCommit":    "built-from-module",
		"gitTreeState": "clean",
	}
	flags := "-s -w"
	for _, name := range []string{"gitVersion", "gitMajor", "gitMinor", "gitCommit", "gitTreeState"} {
		flags += fmt.Sprintf(" -X k8s.io/component-base/version.%s=%s", name, values[name])
	}
	return flags
}

// moduleRoot walks up from the working directory to the go.mod of this project.
func moduleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && declaresModule(content, modulePath) {
			return dir, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no checkout of %s at or above %s: the control plane is built from dev/localcluster/binaries there",
				modulePath, start)
		}
	}
}

func declaresModule(gomod []byte, path string) bool {
	lines := bufio.NewScanner(bytes.NewReader(gomod))
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) >= 2 && fields[0] == "module" {
			return fields[1] == path
		}
	}
	return false
}

func (s source) hash(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOVERSION")
	cmd.Dir = s.dir
	goVersion, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ask the go tool for its version (is Go installed and in PATH?): %w", err)
	}
	digest := sha256.New()
	fmt.Fprintf(digest, "%s\n%q\n%q\n", bytes.TrimSpace(goVersion), s.flags, s.env)
	err = filepath.WalkDir(s.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !s.isSource(entry.Name()) {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(s.dir, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(digest, "%s %d\n%s", name, len(content), content)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("read the sources of the control plane: %w", err)
	}
	return hex.EncodeToString(digest.Sum(nil))[:20], nil
}

// isSource reports whether a file goes into the executables. Files that pin other versions of Kubernetes do not.
func (s source) isSource(name string) bool {
	return name == s.modFile || name == strings.TrimSuffix(s.modFile, ".mod")+".sum" ||
		(strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"))
}
