// Package release makes the files of a release: programs, images, the chart, lists of their parts, checksums, a statement of how they
// were made, and signatures. The same commit, version, Go and root certificates give the same bytes on any machine.
//
// See docs/reference/support-policy.md, and for the reasons ADR 94.
package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/semver"

	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

// Program is a program that is released, and the platforms that it is for.
type Program struct {
	// Name is the name of its folder below cmd.
	Name string
	// Platforms are OS/ARCH.
	Platforms []string
}

// Programs are those of a release.
var Programs = []Program{
	{Name: Daemon, Platforms: []string{"linux/amd64", "linux/arm64"}},
	{Name: tool, Platforms: []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}},
}

const (
	// Daemon is the program that there is an image of.
	Daemon = "cloud-controller-manager"
	// tool is the program that is a plugin of kubectl, too.
	tool = "mooring"
)

// Names of files of a release.
const (
	// SumsFile lists the SHA-256 of every other file but the signatures, as sha256sum reads it.
	SumsFile = "SHA256SUMS"
	// DigestsFile lists the digests by which the image and the chart are pulled once they are pushed.
	DigestsFile = "DIGESTS"
	// ProvenanceFile is the statement of how the files were made: in-toto, with SLSA provenance v1 as predicate.
	ProvenanceFile = "provenance.intoto.json"
	// PluginFile is the manifest by which Krew installs the tool as a plugin of kubectl.
	PluginFile = "krew.yaml"
)

// Options say what to release. Root, Output and Version are required.
type Options struct {
	// Root is the folder of the checkout.
	Root string
	// Output is the folder to write; it must not exist or be empty.
	Output string
	// Version is the version, such as v0.1.0.
	Version string
	// Commit is the full ID of the commit, with -dirty behind it if files differ.
	Commit string
	// Created is the time of all files: the commit's.
	Created time.Time
	// Programs are what to build: the daemon, and others. Empty means Programs.
	Programs []Program
	// Certificates is a file of PEM root certificates for the image. Empty takes those of this machine.
	Certificates string
	// Key is a file with the private key that signs, in PEM. Empty signs nothing.
	Key string
	// Progress gets what is being done.
	Progress io.Writer
}

// Digests are by what the image and the chart are pulled once they are pushed.
type Digests struct{ Image, Chart string }

// run is one release under way.
type run struct {
	Options
	display *progress.Display
	// scratch holds what is not released.
	scratch string
	// certificatesSum is the SHA-256 of the file of root certificates.
	certificatesSum string
	digests         Digests
}

// Write writes the files of a release into a folder, which is complete or not there. Its errors name all that is wrong with the
// options at once.
func Write(ctx context.Context, options Options) (digests Digests, err error) {
	if len(options.Programs) == 0 {
		options.Programs = Programs
	}
	key, keyErr := readKey(options.Key)
	if err := errors.Join(checkVersion(options.Version), checkOutput(options.Output), keyErr); err != nil {
		return Digests{}, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("release %s: %w", options.Version, err)
		}
	}()
	if err := os.MkdirAll(filepath.Dir(options.Output), 0o755); err != nil {
		return Digests{}, err
	}
	// Beside the output, to move there at once what is complete.
	scratch, err := os.MkdirTemp(filepath.Dir(options.Output), ".release-")
	if err != nil {
		return Digests{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	r := &run{Options: options, display: progress.New(options.Progress), scratch: scratch}
	r.Output = filepath.Join(scratch, "complete")
	if err := os.Mkdir(r.Output, 0o755); err != nil {
		return Digests{}, err
	}
	for _, step := range []func(context.Context) error{r.figures, r.programs, r.plugin, r.image, r.chart, r.provenance} {
		if err := step(ctx); err != nil {
			return Digests{}, err
		}
	}
	if err := sign(r.Output, key, SumsFile, ProvenanceFile); err != nil {
		return Digests{}, err
	}
	if err := os.Remove(options.Output); err != nil && !os.IsNotExist(err) { // an empty folder; checkOutput has looked
		return Digests{}, err
	}
	return r.digests, os.Rename(r.Output, options.Output)
}

// checkVersion returns an error for a version that Go, Helm or registries do not take: one that is shortened or has build metadata.
func checkVersion(version string) error {
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		return fmt.Errorf("version %q: must be vMAJOR.MINOR.PATCH, with -PRERELEASE behind it or not, for example v0.1.0", version)
	}
	return nil
}

// checkOutput returns an error for a folder that holds something: a release is never a mixture of two.
func checkOutput(folder string) error {
	entries, err := os.ReadDir(folder)
	if os.IsNotExist(err) {
		return nil
	}
	if err == nil && len(entries) > 0 {
		err = errors.New("it is not empty; remove what is there")
	}
	if err != nil {
		return fmt.Errorf("output %s: %w", folder, err)
	}
	return nil
}

// write writes a file of the release.
func (r *run) write(name string, content []byte) error {
	return os.WriteFile(filepath.Join(r.Output, name), content, 0o644)
}
