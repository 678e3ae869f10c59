package release

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/mod/semver"

	"github.com/mooring-ccm/mooring/internal/tool/gobuild"
	"github.com/mooring-ccm/mooring/internal/tool/image"
	"github.com/mooring-ccm/mooring/internal/version"
	"github.com/mooring-ccm/mooring/internal/version/stamp"
)

// figuresLimit bounds the check of figures, which reads one file.
const figuresLimit = time.Minute

// figures returns an error if the checkout has no figures of the benchmark for the version, or some of other sizes than those of a
// full run. The module of the benchmark knows which these are. A prerelease needs none.
func (r *run) figures(ctx context.Context) error {
	if semver.Prerelease(r.Version) != "" {
		return nil
	}
	program := filepath.Join(r.scratch, "report")
	err := gobuild.Build(ctx, gobuild.Options{
		Dir: filepath.Join(r.Root, "dev", "bench"), Package: "./cmd/report", Name: "the check of figures", Output: program, Display: r.display,
		Flags: []string{"-mod=readonly"}, Env: []string{"GOWORK=off"},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, figuresLimit)
	defer cancel()
	_, err = output(ctx, "", program, "--docs="+filepath.Join(r.Root, "docs"), "--check="+r.Version)
	return err
}

// output runs a program in a folder and returns what it prints. The error is what it says of one, if it says anything.
func output(ctx context.Context, folder, program string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, program, args...)
	command.Dir = folder
	printed, err := command.Output()
	if exited := (*exec.ExitError)(nil); errors.As(err, &exited) && exited.Exited() && len(exited.Stderr) > 0 {
		return "", errors.New(strings.TrimPrefix(strings.TrimSpace(string(exited.Stderr)), "error: "))
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", filepath.Base(program), err)
	}
	return strings.TrimSpace(string(printed)), nil
}

// programs builds every program for its platforms, packs each with the license, and lists the modules of each.
func (r *run) programs(ctx context.Context) error {
	kubernetes, err := output(ctx, r.Root, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/component-base")
	if err != nil {
		return fmt.Errorf("version of Kubernetes: %w", err)
	}
	linker := stamp.Stamp{Release: r.Version, Commit: r.Commit, Date: r.Created, Kubernetes: stamp.Kubernetes(kubernetes)}.LinkerFlags()
	for _, program := range r.Programs {
		for _, built := range r.built(program, "") {
			if err := os.MkdirAll(filepath.Dir(built.File), 0o755); err != nil {
				return err
			}
			platform := built.Platform
			err := gobuild.Build(ctx, gobuild.Options{
				Dir: r.Root, Package: "./cmd/" + program.Name, Name: program.Name + " for " + platform.String(), Output: built.File, Display: r.display,
				Flags: append([]string{"-buildvcs=false", "-mod=readonly"}, gobuild.Shipped(os.Getenv("GOFLAGS"), linker)...),
				Env:   []string{"GOOS=" + platform.OS, "GOARCH=" + platform.Architecture, "GOWORK=off"},
			})
			if err != nil {
				return err
			}
			if err := r.pack(archiveName(program.Name, r.Version, platform), built.File); err != nil {
				return err
			}
		}
		sbom, err := image.SBOM(program.Name, r.Version, r.Created, r.built(program, ""))
		if err != nil {
			return err
		}
		if err := r.write(program.Name+".spdx.json", sbom); err != nil {
			return err
		}
	}
	return nil
}

// built are the files of a program for its platforms of one OS, or all. Each is in a folder of its own.
func (r *run) built(program Program, goos string) []image.Program {
	var files []image.Program
	for _, text := range program.Platforms {
		platform := v1.Platform{}
		platform.OS, platform.Architecture, _ = strings.Cut(text, "/")
		if goos == "" || platform.OS == goos {
			files = append(files, image.Program{Platform: platform, File: filepath.Join(r.scratch, program.Name, text, program.Name)})
		}
	}
	return files
}

// archiveName is the name of the archive of a program for a platform.
func archiveName(program, version string, platform v1.Platform) string {
	return strings.Join([]string{program, version, platform.OS, platform.Architecture}, "-") + ".tar.gz"
}

// pack writes the archive of a program, with the license beside it.
func (r *run) pack(name, program string) error {
	license, err := os.ReadFile(filepath.Join(r.Root, "LICENSE"))
	if err != nil {
		return err
	}
	folder := filepath.Dir(program)
	if err := os.WriteFile(filepath.Join(folder, "LICENSE"), license, 0o600); err != nil {
		return err
	}
	content, err := packed(folder, r.Created, filepath.Base(program))
	if err != nil {
		return err
	}
	return r.write(name, content)
}

// packed returns the files below a folder as a compressed tar, with nothing in it of this machine or this hour.
func packed(folder string, modified time.Time, programs ...string) ([]byte, error) {
	var content bytes.Buffer
	compressed := gzip.NewWriter(&content)
	if err := errors.Join(image.Pack(compressed, folder, modified, programs...), compressed.Close()); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return content.Bytes(), nil
}

//go:embed krew.yaml.tmpl
var pluginManifest string

// plugin writes Krew's manifest, for archives where a release of the project has its files. A release without the tool has none.
func (r *run) plugin(context.Context) error {
	type archive struct{ OS, Arch, URI, SHA256 string }
	var archives []archive
	for _, program := range r.Programs {
		if program.Name != tool {
			continue
		}
		for _, built := range r.built(program, "") {
			name := archiveName(tool, r.Version, built.Platform)
			sum, err := image.SHA256(filepath.Join(r.Output, name))
			if err != nil {
				return err
			}
			uri := "https://" + version.Module + "/releases/download/" + r.Version + "/" + name
			archives = append(archives, archive{built.Platform.OS, built.Platform.Architecture, uri, sum})
		}
	}
	if len(archives) == 0 {
		return nil
	}
	var manifest bytes.Buffer
	data := map[string]any{"Version": r.Version, "Archives": archives}
	if err := template.Must(template.New(PluginFile).Parse(pluginManifest)).Execute(&manifest, data); err != nil {
		return err
	}
	return r.write(PluginFile, manifest.Bytes())
}

// image writes the daemon's image for all its platforms.
func (r *run) image(ctx context.Context) error {
	from, _, certificates, err := image.Certificates(r.Certificates)
	if err != nil {
		return err
	}
	if r.certificatesSum, err = image.SHA256(from); err != nil {
		return err
	}
	sbom, err := os.ReadFile(filepath.Join(r.Output, Daemon+".spdx.json"))
	if err != nil {
		return err
	}
	labels := map[string]string{
		"org.opencontainers.image.title": Daemon, "org.opencontainers.image.version": r.Version,
		"org.opencontainers.image.source": "https://" + version.Module, "org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.revision": r.Commit,
	}
	var programs []image.Program
	for _, program := range r.Programs {
		if program.Name == Daemon {
			programs = r.built(program, "linux")
		}
	}
	file := filepath.Join(r.Output, Daemon+"-"+r.Version+"-image.tar")
	written, err := image.Write(ctx, file, r.scratch, image.Options{
		Name: Daemon, Programs: programs, Certificates: certificates, SBOM: sbom, Labels: labels, Created: r.Created,
	})
	r.digests.Image = written.String()
	return err
}
