package rack

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/mooring-ccm/mooring/dev/filelock"
	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/internal/tool/gobuild"
	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

// metalLB is MetalLB's module, which dev/bench/metal/programs requires.
const metalLB = "go.universe.tf/metallb"

// backend takes the place of MetalLB's backend frr-k8s in the build.
//
//go:embed frrk8s.txt
var backend []byte

// Programs are the programs that a rack runs, and what one of them is installed with.
type Programs struct {
	// Mooring is the daemon. Controller and Speaker are MetalLB's.
	Mooring, Controller, Speaker string
	// Manifest is MetalLB's own manifest for native BGP, as its module ships it.
	Manifest string
	// Version is MetalLB's.
	Version string
}

// Build builds the programs as they are shipped, and shows its progress on lines. MetalLB's are kept between runs. Module is the folder of
// dev/bench/metal/programs, and dir gets the daemon.
func Build(ctx context.Context, module, dir string, lines io.Writer) (Programs, error) {
	programs, err := buildMetalLB(ctx, module, lines)
	if err != nil {
		return Programs{}, fmt.Errorf("build MetalLB: %w", err)
	}
	programs.Mooring = filepath.Join(dir, "cloud-controller-manager")
	return programs, harness.BuildDaemon(ctx, programs.Mooring, lines)
}

func buildMetalLB(ctx context.Context, module string, lines io.Writer) (Programs, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return Programs{}, fmt.Errorf("find the cache folder: %w", err)
	}
	bin := filepath.Join(cache, "mooring", "metallb")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return Programs{}, err
	}
	display := progress.New(lines)
	unlock, err := filelock.Take(ctx, filepath.Join(bin, "lock"), display, "another build of MetalLB")
	if err != nil {
		return Programs{}, err
	}
	defer unlock()
	options := gobuild.Options{Dir: module, Env: []string{"GOWORK=off"}, Display: display}
	programs, folder := Programs{Controller: filepath.Join(bin, "controller"), Speaker: filepath.Join(bin, "speaker")}, ""
	for format, to := range map[string]*string{"{{.Dir}}": &folder, "{{.Version}}": &programs.Version} {
		answer, listErr := gobuild.Run(ctx, options, []string{"list", "-m", "-f", format, metalLB}, func(string) bool { return false })
		*to, err = strings.TrimSpace(answer), errors.Join(err, listErr)
	}
	if err != nil {
		return Programs{}, fmt.Errorf("find its module: %w", err)
	}
	programs.Manifest = filepath.Join(folder, "config", "manifests", "metallb-native.yaml")
	modfile, err := patch(ctx, options, folder, filepath.Join(bin, "source"))
	if err != nil {
		return Programs{}, fmt.Errorf("leave out its backend frr-k8s: %w", err)
	}
	options.Flags = []string{"-ldflags=-s -w", "-modfile=" + modfile}
	for _, output := range []string{programs.Controller, programs.Speaker} {
		program := options
		program.Package, program.Output = metalLB+"/"+filepath.Base(output), output
		if err := gobuild.Build(ctx, program); err != nil {
			return Programs{}, err
		}
	}
	return programs, nil
}

// patch copies MetalLB's source to a folder, puts backend in the place of its backend frr-k8s, and returns the path of a go.mod that builds
// the copy. The go tool lays no other file over those of its cache.
func patch(ctx context.Context, options gobuild.Options, from, to string) (modfile string, err error) {
	if err := os.RemoveAll(to); err != nil {
		return "", err
	}
	for _, folder := range []string{"api", "controller", "internal", "speaker"} {
		err = errors.Join(err, os.CopyFS(filepath.Join(to, folder), os.DirFS(filepath.Join(from, folder))))
	}
	modfile = filepath.Join(to, "programs.mod")
	for source, copied := range map[string]string{
		filepath.Join(from, "go.mod"): filepath.Join(to, "go.mod"), filepath.Join(options.Dir, "go.mod"): modfile,
		filepath.Join(options.Dir, "go.sum"): filepath.Join(to, "programs.sum"),
	} {
		content, readErr := os.ReadFile(source)
		err = errors.Join(err, readErr, os.WriteFile(copied, content, 0o600))
	}
	err = errors.Join(err, os.WriteFile(filepath.Join(to, "internal", "bgp", "frrk8s", "frrk8s.go"), backend, 0o600))
	if err != nil {
		return "", err
	}
	_, err = gobuild.Run(ctx, options, []string{"mod", "edit", "-replace=" + metalLB + "=" + to, modfile}, func(string) bool { return false })
	return modfile, err
}

// Encode returns the programs as text for another process.
func (p Programs) Encode() string {
	text, _ := json.Marshal(p) // strings only
	return string(text)
}

// Decode reads what Encode returned.
func Decode(text string) (p Programs, err error) {
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return Programs{}, fmt.Errorf("read which programs were built: %w", err)
	}
	return p, nil
}
