package release

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/mod/modfile"

	"github.com/mooring-ccm/mooring/internal/gobuild"
	"github.com/mooring-ccm/mooring/internal/image"
	"github.com/mooring-ccm/mooring/internal/version"
)

// programs builds every program for its platforms, and packs each with the license.
func (r *run) programs(ctx context.Context) error {
	kubernetes, err := kubernetesOf(r.Root)
	if err != nil {
		return err
	}
	flags := "-s -w " + version.LinkerFlags(r.Version, r.Commit, kubernetes)
	license, err := os.ReadFile(filepath.Join(r.Root, "LICENSE"))
	if err != nil {
		return fmt.Errorf("license: %w", err)
	}
	for _, program := range r.Programs {
		r.built[program.Name] = map[string]string{}
		for _, platform := range program.Platforms {
			goos, arch, _ := strings.Cut(platform, "/")
			file := filepath.Join(r.scratch, program.Name+"-"+goos+"-"+arch)
			err := gobuild.Build(ctx, gobuild.Options{
				Dir: r.Root, Package: "./cmd/" + program.Name, Name: program.Name + " for " + platform, Output: file, Display: r.display,
				Flags: []string{"-buildvcs=false", "-mod=readonly", "-ldflags=" + flags}, Env: []string{"GOOS=" + goos, "GOARCH=" + arch, "GOWORK=off"},
			})
			if err != nil {
				return err
			}
			r.built[program.Name][platform] = file
			content, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("program: %w", err)
			}
			packed := []packedFile{{program.Name, 0o755, content}, {"LICENSE", 0o644, license}}
			if err := r.pack(archiveName(program.Name, r.Version, platform), packed); err != nil {
				return err
			}
		}
		sbom, err := image.SBOM(program.Name, r.Version, r.Created, r.programsOf(program.Name, ""))
		if err != nil {
			return err
		}
		if err := r.write(program.Name+".spdx.json", sbom); err != nil {
			return err
		}
	}
	return nil
}

// kubernetesOf reads from the go.mod of a checkout the version of Kubernetes whose libraries it requires.
func kubernetesOf(root string) (string, error) {
	path := filepath.Join(root, "go.mod")
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("version of Kubernetes: %w", err)
	}
	parsed, err := modfile.Parse(path, content, nil)
	if err != nil {
		return "", fmt.Errorf("version of Kubernetes: %w", err)
	}
	for _, required := range parsed.Require {
		if rest, found := strings.CutPrefix(required.Mod.Version, "v0."); found && required.Mod.Path == "k8s.io/component-base" {
			return "v1." + rest, nil
		}
	}
	return "", fmt.Errorf("version of Kubernetes: %s requires no k8s.io/component-base", path)
}

// programsOf are the builds of a program, those for one OS or all.
func (r *run) programsOf(name, goos string) []image.Program {
	var programs []image.Program
	for _, platform := range slices.Sorted(maps.Keys(r.built[name])) {
		parsed := v1.Platform{}
		parsed.OS, parsed.Architecture, _ = strings.Cut(platform, "/")
		if goos == "" || parsed.OS == goos {
			programs = append(programs, image.Program{Platform: parsed, File: r.built[name][platform]})
		}
	}
	return programs
}

// packedFile is a file in an archive.
type packedFile struct {
	name    string
	mode    int64
	content []byte
}

// pack writes a compressed tar, with nothing in it of this machine or this hour.
func (r *run) pack(name string, files []packedFile) (err error) {
	out, err := os.Create(filepath.Join(r.Output, name))
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return packTo(out, r.Created, files)
}

func packTo(out io.Writer, modified time.Time, files []packedFile) error {
	compressed := gzip.NewWriter(out)
	packed := tar.NewWriter(compressed)
	for _, file := range files {
		header := &tar.Header{
			Name: file.name, Mode: file.mode, Size: int64(len(file.content)), ModTime: modified.UTC(), Typeflag: tar.TypeReg, Format: tar.FormatPAX,
		}
		if err := packed.WriteHeader(header); err != nil {
			return fmt.Errorf("archive: %s: %w", file.name, err)
		}
		if _, err := packed.Write(file.content); err != nil {
			return fmt.Errorf("archive: %s: %w", file.name, err)
		}
	}
	return errors.Join(packed.Close(), compressed.Close())
}

// image writes the daemon's image for all its platforms.
func (r *run) image(ctx context.Context) error {
	from, _, certificates, err := image.Certificates(r.Certificates)
	if err != nil {
		return err
	}
	digest, err := sha256Of(from)
	if err != nil {
		return err
	}
	r.materials["root-certificates.pem"] = digest
	sbom, err := os.ReadFile(filepath.Join(r.Output, Daemon+".spdx.json"))
	if err != nil {
		return fmt.Errorf("list of parts: %w", err)
	}
	labels := map[string]string{
		"org.opencontainers.image.title": Daemon, "org.opencontainers.image.version": r.Version,
		"org.opencontainers.image.source": "https://" + version.Module, "org.opencontainers.image.licenses": "Apache-2.0",
	}
	if r.Commit != "" {
		labels["org.opencontainers.image.revision"] = r.Commit
	}
	file := filepath.Join(r.Output, Daemon+"-"+r.Version+"-image.tar")
	written, err := image.Write(ctx, file, r.scratch, image.Options{
		Name: Daemon, Programs: r.programsOf(Daemon, "linux"), Certificates: certificates, SBOM: sbom, Labels: labels, Created: r.Created,
	})
	r.digests.Image = written.String()
	return err
}
