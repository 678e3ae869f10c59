package localcluster_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/internal/tool/gobuild"
)

// checkout makes a small checkout whose control plane is programs that print their name, and works in it.
func checkout(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	program := "package main\n\nimport \"os\"\n\nfunc main() { println(os.Args[0]) }\n"
	write(t, root, "go.mod", "module github.com/mooring-ccm/mooring\n")
	write(t, root, "dev/localcluster/binaries/go.mod", "module example.com/binaries\n\ngo 1.26\n")
	for _, part := range localcluster.Parts() {
		write(t, root, "dev/localcluster/binaries/"+string(part)+"/main.go", program)
	}
	write(t, root, "deep/down/file", "")
	t.Chdir(filepath.Join(root, "deep", "down"))
	return root
}

func write(t *testing.T, root, name, content string) {
	t.Helper()
	path := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestBuildCaches(t *testing.T) {
	root := checkout(t)
	cache := t.TempDir()
	build := func(parts ...localcluster.Part) (localcluster.Binaries, string) {
		t.Helper()
		var progress bytes.Buffer
		binaries, err := localcluster.Build(t.Context(), localcluster.BuildOptions{Parts: parts, CacheDir: cache, Progress: &progress})
		if err != nil {
			t.Fatal(err)
		}
		return binaries, progress.String()
	}

	first, progress := build(localcluster.Parts()...)
	for _, part := range localcluster.Parts() {
		if !strings.Contains(progress, "building ./"+string(part)) {
			t.Errorf("the progress of the first build does not name %s:\n%s", part, progress)
		}
	}
	for _, program := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubelet", "kube-proxy", "kubectl"} {
		if output, err := exec.Command(first.Program(program)).CombinedOutput(); err != nil || !bytes.Contains(output, []byte(program)) {
			t.Errorf("%s: %s, %v", program, output, err)
		}
	}
	again, progress := build(localcluster.Parts()...)
	if again != first || progress != "" {
		t.Errorf("the second build is in %s with progress %q, want nothing to be done", again.Dir(), progress)
	}
	write(t, root, "dev/localcluster/binaries/node/more.go", "package main\n")
	changed, _ := build()
	if changed == first {
		t.Error("changed sources have the same place in the cache")
	}
	if _, err := os.Stat(changed.Program("kubelet")); err == nil {
		t.Error("a part that was not asked for was built")
	}
}

func TestBuildForgetsWhatIsUnused(t *testing.T) {
	root := checkout(t)
	cache := t.TempDir()
	options := localcluster.BuildOptions{CacheDir: cache}
	old, err := localcluster.Build(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	longAgo := time.Now().Add(-365 * 24 * time.Hour)
	if err := os.Chtimes(old.Dir(), longAgo, longAgo); err != nil {
		t.Fatal(err)
	}
	write(t, root, "dev/localcluster/binaries/go.sum", "")
	current, err := localcluster.Build(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an entry that was not used for a year is still there: %v", err)
	}
	if _, err := os.Stat(current.Program("etcd")); err != nil {
		t.Errorf("the current entry: %v", err)
	}
}

func TestBuildOnceForMany(t *testing.T) {
	checkout(t)
	cache := t.TempDir()
	progress := make([]bytes.Buffer, 4)
	var group sync.WaitGroup
	for i := range progress {
		group.Go(func() {
			options := localcluster.BuildOptions{CacheDir: cache, Progress: &progress[i]}
			if _, err := localcluster.Build(t.Context(), options); err != nil {
				t.Errorf("build %d: %v", i, err)
			}
		})
	}
	group.Wait()
	builds := 0
	for i := range progress {
		builds += strings.Count(progress[i].String(), ": built")
	}
	if builds != 1 {
		t.Errorf("%d builds, want 1", builds)
	}
}

func TestBuildFails(t *testing.T) {
	build := func(t *testing.T, cache string) error {
		_, err := localcluster.Build(t.Context(), localcluster.BuildOptions{CacheDir: cache})
		return err
	}
	t.Run("outside a checkout", func(t *testing.T) {
		t.Chdir(t.TempDir())
		must.ErrorContains(t, build(t, t.TempDir()), "no checkout of github.com/mooring-ccm/mooring at or above")
	})
	t.Run("unknown part", func(t *testing.T) {
		_, err := localcluster.Build(t.Context(), localcluster.BuildOptions{Parts: []localcluster.Part{"scheduler"}})
		must.ErrorContains(t, err, `unknown part "scheduler"`, "controlplane", "node")
	})
	t.Run("sources that do not compile leave nothing behind", func(t *testing.T) {
		root := checkout(t)
		cache := t.TempDir()
		write(t, root, "dev/localcluster/binaries/controlplane/main.go", "package main\n\nfunc main() { undefined() }\n")
		must.ErrorContains(t, build(t, cache), "main.go:3:15: undefined: undefined")
		if found, _ := filepath.Glob(filepath.Join(cache, "*", "*")); len(found) > 0 {
			t.Errorf("left behind: %v", found)
		}
	})
	t.Run("a module that cannot be downloaded", func(t *testing.T) {
		root := checkout(t)
		t.Setenv("GOPROXY", "http://127.0.0.1:1") // no server listens there
		t.Setenv("GOMODCACHE", t.TempDir())
		t.Setenv("GONOSUMDB", "*")
		write(t, root, "dev/localcluster/binaries/go.mod", "module example.com/binaries\n\ngo 1.26\n\nrequire example.com/gone v1.0.0\n")
		write(t, root, "dev/localcluster/binaries/go.sum", "example.com/gone v1.0.0 h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"+
			"example.com/gone v1.0.0/go.mod h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n")
		write(t, root, "dev/localcluster/binaries/controlplane/main.go", "package main\n\nimport _ \"example.com/gone\"\n\nfunc main() {}\n")
		err := build(t, t.TempDir())
		var network *gobuild.NetworkError
		if !errors.As(err, &network) {
			t.Errorf("error %v, want a NetworkError", err)
		}
	})
	t.Run("no go tool", func(t *testing.T) {
		checkout(t)
		t.Setenv("PATH", t.TempDir())
		must.ErrorContains(t, build(t, t.TempDir()), "is Go installed and in PATH")
	})
	t.Run("canceled", func(t *testing.T) {
		checkout(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := localcluster.Build(ctx, localcluster.BuildOptions{CacheDir: t.TempDir()})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
	})
}
