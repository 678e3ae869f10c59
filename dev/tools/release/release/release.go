package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mooring-ccm/mooring/internal/progress"
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
	// Programs are what to build. Empty means Programs.
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
	// built are the files of programs, by program and platform.
	built map[string]map[string]string
	// materials are what the release was made from, besides the commit, by name with the digest.
	materials map[string]string
	digests   Digests
}

// Write writes the files of a release into a folder, which is complete or not there. Its errors name all that is wrong with the
// options at once.
func Write(ctx context.Context, options Options) (digests Digests, err error) {
	if len(options.Programs) == 0 {
		options.Programs = Programs
	}
	signer, keyErr := readKey(options.Key)
	if err := errors.Join(checkVersion(options.Version), checkPrograms(options.Programs), checkOutput(options.Output), keyErr); err != nil {
		return Digests{}, err
	}
	if err := os.MkdirAll(filepath.Dir(options.Output), 0o755); err != nil {
		return Digests{}, fmt.Errorf("folder of the release: %w", err)
	}
	// Beside the output, so that what is complete can be moved there at once.
	scratch, err := os.MkdirTemp(filepath.Dir(options.Output), ".release-")
	if err != nil {
		return Digests{}, fmt.Errorf("folder of the release: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	r := &run{
		Options: options, display: progress.New(options.Progress), scratch: scratch,
		built: map[string]map[string]string{}, materials: map[string]string{},
	}
	final := r.Output
	r.Output = filepath.Join(scratch, "complete")
	if err := os.Mkdir(r.Output, 0o755); err != nil {
		return Digests{}, fmt.Errorf("folder of the release: %w", err)
	}
	for _, step := range []func(context.Context) error{r.figures, r.programs, r.plugin, r.image, r.chart, r.listDigests, r.provenance, r.sums} {
		if err := step(ctx); err != nil {
			return Digests{}, fmt.Errorf("release %s: %w", r.Version, err)
		}
	}
	if err := signer.sign(r.Output, SumsFile, ProvenanceFile); err != nil {
		return Digests{}, fmt.Errorf("release %s: %w", r.Version, err)
	}
	if err := os.Remove(final); err != nil && !os.IsNotExist(err) { // an empty folder; checkOutput has looked
		return Digests{}, fmt.Errorf("folder of the release: %w", err)
	}
	return r.digests, os.Rename(r.Output, final)
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

// files are the names of the files that are there so far, sorted.
func (r *run) files() ([]string, error) {
	entries, err := os.ReadDir(r.Output)
	if err != nil {
		return nil, fmt.Errorf("files of the release: %w", err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	slices.Sort(names)
	return names, nil
}

// write writes a file of the release.
func (r *run) write(name string, content []byte) error {
	if err := os.WriteFile(filepath.Join(r.Output, name), content, 0o644); err != nil {
		return fmt.Errorf("file of the release: %w", err)
	}
	return nil
}

// listDigests writes the digests of what can be pushed.
func (r *run) listDigests(context.Context) error {
	lines := []string{r.digests.Image + "  " + Daemon, r.digests.Chart + "  " + chartName}
	return r.write(DigestsFile, []byte(strings.Join(lines, "\n")+"\n"))
}
