package localcluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/mooring-ccm/mooring/dev/filelock"
	"github.com/mooring-ccm/mooring/internal/tool/gobuild"
	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

// Part is one executable of the nested module dev/localcluster/binaries. Each is several programs in one file, which saves
// most of the time and disk that linking them apart would take.
type Part string

const (
	// ControlPlane is etcd, kube-apiserver and kube-controller-manager.
	ControlPlane Part = "controlplane"
	// Node is kubelet and kube-proxy.
	Node Part = "node"
	// Client is kubectl.
	Client Part = "client"
)

// Parts are all parts that can be built.
func Parts() []Part { return []Part{ControlPlane, Node, Client} }

// programs are the names by which a part can be called.
func (p Part) programs() []string {
	switch p {
	case ControlPlane:
		return []string{"etcd", "kube-apiserver", "kube-controller-manager"}
	case Node:
		return []string{"kubelet", "kube-proxy"}
	case Client:
		return []string{"kubectl"}
	default:
		return nil
	}
}

// BuildOptions say what to build. The zero value builds ControlPlane, silently, into the default cache.
type BuildOptions struct {
	// Parts are the parts to build. Empty means ControlPlane.
	Parts []Part
	// Version is the version of Kubernetes to build, one of Versions, or its minor release: "1.35". Empty means what
	// ChosenVersion returns.
	Version string
	// Progress gets a line every two seconds while something is being built, or a line repainted in place when it is a
	// terminal. Nothing is written when everything is cached already.
	Progress io.Writer
	// CacheDir is where built files are kept. Empty means mooring/controlplane under os.UserCacheDir.
	CacheDir string
}

// Binaries are built executables. The zero value holds none.
type Binaries struct {
	dir     string
	version string
}

// Program returns the path of a program by its own name: etcd, kube-apiserver, kube-controller-manager, kubelet,
// kube-proxy or kubectl. It does not check that the part that holds the program was built.
func (b Binaries) Program(name string) string { return filepath.Join(b.dir, name) }

// Dir is the directory that holds the programs.
func (b Binaries) Dir() string { return b.dir }

// Version is the version of Kubernetes that the programs were built from, and report: "v1.36.3".
func (b Binaries) Version() string { return b.version }

// Build returns the executables of the requested parts, and builds what is not cached. The key of the cache covers the source files of
// dev/localcluster/binaries and the versions of Kubernetes and Go. It also covers the platform and the linker flags. Concurrent calls, in this
// process or another, build once. Build must be called from within a checkout of this project.
func Build(ctx context.Context, options BuildOptions) (Binaries, error) {
	if len(options.Parts) == 0 {
		options.Parts = []Part{ControlPlane}
	}
	for _, part := range options.Parts {
		if part.programs() == nil {
			return Binaries{}, fmt.Errorf("build control plane: unknown part %q, known are %q", part, Parts())
		}
	}
	pin, err := pinOf(options.Version)
	if err != nil {
		return Binaries{}, fmt.Errorf("build control plane: %w", err)
	}
	source, err := findSource(ctx, pin)
	if err != nil {
		return Binaries{}, fmt.Errorf("build control plane: %w", err)
	}
	cache := options.CacheDir
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return Binaries{}, fmt.Errorf("build control plane: no cache directory, set HOME or XDG_CACHE_HOME: %w", err)
		}
		cache = filepath.Join(user, "mooring", "controlplane")
	}
	binaries := Binaries{dir: filepath.Join(cache, source.key), version: pin.version}
	if err := binaries.ensure(ctx, source, cache, options); err != nil {
		return Binaries{}, fmt.Errorf("build control plane in %s: %w", cache, err)
	}
	return binaries, nil
}

// ensure builds what is missing. Only then it takes the lock: a hit costs a few milliseconds.
func (b Binaries) ensure(ctx context.Context, source source, cache string, options BuildOptions) error {
	if len(b.missing(options.Parts)) == 0 {
		return b.touch()
	}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	display := progress.New(options.Progress)
	unlock, err := filelock.Take(ctx, filepath.Join(cache, "lock"), display, "another build of the control plane")
	if err != nil {
		return err
	}
	defer unlock()
	for _, part := range b.missing(options.Parts) {
		if err := b.build(ctx, source, part, display); err != nil {
			return err
		}
	}
	if err := b.touch(); err != nil {
		return err
	}
	return prune(cache, time.Now().Add(-unusedFor))
}

// missing returns the parts that have a program which is not there. The links to a part are made before the part itself
// is put in place, so a part that is there is complete.
func (b Binaries) missing(parts []Part) []Part {
	var missing []Part
	for _, part := range parts {
		if _, err := os.Stat(b.Program(string(part))); err != nil {
			missing = append(missing, part)
		}
	}
	return missing
}

func (b Binaries) build(ctx context.Context, source source, part Part, display *progress.Display) error {
	// The lock is held, so a file of this name is what a killed build left behind.
	output := b.Program("unfinished-" + string(part))
	defer os.Remove(output)
	err := gobuild.Build(ctx, gobuild.Options{
		Dir:     source.dir,
		Package: "./" + string(part),
		Name:    fmt.Sprintf("./%s of Kubernetes %s", part, source.version),
		Output:  output,
		Flags:   source.flags,
		Env:     source.env,
		Display: display,
	})
	if err != nil {
		return err
	}
	for _, program := range part.programs() {
		if err := os.Symlink(string(part), b.Program(program)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return os.Rename(output, b.Program(string(part)))
}

// touch marks the entry as used, for prune.
func (b Binaries) touch() error {
	now := time.Now()
	return os.Chtimes(b.dir, now, now)
}

// unusedFor is how long an entry of the cache is kept after its last use.
const unusedFor = 30 * 24 * time.Hour

// prune removes entries that were last used before a time: each is 300 MB, and nothing asks for an old one again.
func prune(cache string, before time.Time) error {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !entry.IsDir() || !info.ModTime().Before(before) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(cache, entry.Name())); err != nil {
			return fmt.Errorf("remove old cache entry: %w", err)
		}
	}
	return nil
}
