// Package image writes programs as an OCI image: a tarball with an image layout that container engines and registries take,
// made without a container engine, a base image or root. The same input gives the same bytes, on any machine.
//
// What is in the image: the program, root certificates, the user and group 65532, a /tmp, and a list of the modules that the
// program was built from. There is no shell and no libc: the program must be linked statically. ADR 94 has why ko does not do this.
package image

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// User is the numeric user and group that the program runs as. Kubernetes accepts no name for runAsNonRoot.
const User = 65532

// Where things are in the image. Go looks for certificates at certificatesPath on every Linux (crypto/x509).
const (
	programDir       = "/usr/local/bin"
	certificatesPath = "/etc/ssl/certs/ca-certificates.crt"
)

// Program is a program that was built for a platform.
type Program struct {
	// Platform is what it runs on. The OS must be "linux".
	Platform v1.Platform
	// File is where it is. It must be linked statically.
	File string
}

// Options say what the image is made of. Name and Programs are required.
type Options struct {
	// Name is the program's name in the image, and the last part of the entrypoint.
	Name string
	// Programs are the same program for one or more platforms. Several make an index, from which engines choose.
	Programs []Program
	// Certificates are the PEM root certificates that the program trusts. Without any, it can call no cloud by HTTPS.
	Certificates []byte
	// SBOM is the list of the program's parts as SPDX JSON, which is put into the image. Empty puts none.
	SBOM []byte
	// Labels are the labels of the image's configuration, and the annotations of its manifest.
	Labels map[string]string
	// Reference is the name and tag under which engines load the image, for example "registry.example/ccm:v1". It may be empty.
	Reference string
	// Created is the time of the image and of all files in it. The zero value is the beginning of 1970.
	Created time.Time
}

func (o Options) validate() error {
	var wrong []error
	if o.Name == "" || path.Base(o.Name) != o.Name {
		wrong = append(wrong, fmt.Errorf("name %q: must be the name of a file", o.Name))
	}
	if len(o.Programs) == 0 {
		wrong = append(wrong, errors.New("no program"))
	}
	seen := map[string]bool{}
	for _, program := range o.Programs {
		platform := program.Platform.String()
		if program.Platform.OS != "linux" {
			wrong = append(wrong, fmt.Errorf("platform %s: an image is for linux", platform))
		}
		if seen[platform] {
			wrong = append(wrong, fmt.Errorf("platform %s: given twice", platform))
		}
		seen[platform] = true
	}
	return errors.Join(wrong...)
}

// orEpoch returns a time in UTC, and the beginning of 1970 for none.
func orEpoch(t time.Time) time.Time {
	if t.IsZero() {
		return time.Unix(0, 0).UTC()
	}
	return t.UTC()
}

// imageOf returns the image for one platform. What all platforms share is in a layer of its own, which a registry keeps once.
func (o Options) imageOf(ctx context.Context, program Program, shared v1.Layer) (v1.Image, error) {
	own, err := o.programLayer(ctx, program)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: o.Created}
	image, err := mutate.ConfigFile(base, &v1.ConfigFile{
		OS: program.Platform.OS, Architecture: program.Platform.Architecture, Variant: program.Platform.Variant,
		Created: created,
		Config: v1.Config{
			Entrypoint: []string{path.Join(programDir, o.Name)},
			User:       fmt.Sprintf("%d:%d", User, User),
			WorkingDir: "/",
			Env:        []string{"PATH=" + programDir, "SSL_CERT_FILE=" + certificatesPath},
			Labels:     o.Labels,
		},
		RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, fmt.Errorf("image configuration: %w", err)
	}
	var additions []mutate.Addendum
	for _, layer := range []v1.Layer{shared, own} {
		additions = append(additions, mutate.Addendum{Layer: layer, History: v1.History{Created: created, CreatedBy: "mooring build"}})
	}
	if image, err = mutate.Append(image, additions...); err != nil {
		return nil, fmt.Errorf("image layers: %w", err)
	}
	return mutate.Annotations(image, o.Labels).(v1.Image), nil
}

// content returns what the layout's index points to: the image, or the index of the images of several platforms.
func (o Options) content(ctx context.Context) (mutate.Appendable, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	shared, err := o.sharedLayer(ctx)
	if err != nil {
		return nil, err
	}
	var additions []mutate.IndexAddendum
	for _, program := range o.Programs {
		image, err := o.imageOf(ctx, program, shared)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", program.Platform, err)
		}
		if len(o.Programs) == 1 {
			return image, nil
		}
		additions = append(additions, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &program.Platform}})
	}
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), additions...)
	return mutate.Annotations(index, o.Labels).(v1.ImageIndex), nil
}

// referenceAnnotations are how engines learn the name of an image in a layout. The specification has a key for the tag alone;
// containerd, and with it Docker, reads the whole name from a key of its own.
func (o Options) referenceAnnotations() map[string]string {
	if o.Reference == "" {
		return nil
	}
	annotations := map[string]string{"io.containerd.image.name": o.Reference}
	if slash, colon := strings.LastIndex(o.Reference, "/"), strings.LastIndex(o.Reference, ":"); colon > slash {
		annotations["org.opencontainers.image.ref.name"] = o.Reference[colon+1:]
	}
	return annotations
}

const (
	passwd = "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"
	group  = "root:x:0:\nnonroot:x:65532:\n"
)

// entry is a file or a directory of a tar.
type entry struct {
	// path has no slash at its beginning. A directory's ends in one.
	path string
	// mode is 0644 for a file and 0755 for a directory if it is 0.
	mode int64
	// content is what the file holds, and file where a large one is.
	content string
	file    string
}

// sharedLayer is the layer that is the same for all platforms.
func (o Options) sharedLayer(ctx context.Context) (v1.Layer, error) {
	entries := []entry{
		{path: "etc/"}, {path: "etc/group", content: group}, {path: "etc/passwd", content: passwd}, {path: "tmp/", mode: 0o1777},
	}
	if len(o.Certificates) > 0 {
		entries = append(entries, entry{path: "etc/ssl/"}, entry{path: "etc/ssl/certs/"},
			entry{path: certificatesPath[1:], content: string(o.Certificates)})
	}
	if len(o.SBOM) > 0 {
		entries = append(entries, entry{path: "usr/"}, entry{path: "usr/share/"}, entry{path: "usr/share/sbom/"},
			entry{path: "usr/share/sbom/" + o.Name + ".spdx.json", content: string(o.SBOM)})
	}
	return o.layer(ctx, entries)
}

func (o Options) programLayer(ctx context.Context, program Program) (v1.Layer, error) {
	return o.layer(ctx, []entry{
		{path: "usr/"}, {path: "usr/local/"}, {path: programDir[1:] + "/"},
		{path: path.Join(programDir, o.Name)[1:], mode: 0o755, file: program.File},
	})
}

// layer packs entries. Its readers are its digests and its writer, but it is compressed only once. Reading fails with the cause of ctx
// once that has ended.
func (o Options) layer(ctx context.Context, entries []entry) (v1.Layer, error) {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		reader, writer := io.Pipe()
		stop := context.AfterFunc(ctx, func() { _ = writer.CloseWithError(context.Cause(ctx)) })
		go func() {
			defer stop()
			_ = writer.CloseWithError(pack(writer, entries, o.Created))
		}()
		return reader, nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("layer with %s: %w", entries[len(entries)-1].path, err)
	}
	return layer, nil
}

// pack writes entries as a tar file. All of them belong to root, so the program cannot change what it runs.
func pack(out io.Writer, entries []entry, modified time.Time) error {
	archive := tar.NewWriter(out)
	for _, e := range entries {
		if err := e.pack(archive, modified); err != nil {
			return fmt.Errorf("%s: %w", e.path, err)
		}
	}
	return archive.Close()
}

func (e entry) pack(archive *tar.Writer, modified time.Time) error {
	header := &tar.Header{
		Name: e.path, Mode: cmp.Or(e.mode, 0o644), Size: int64(len(e.content)), ModTime: modified.UTC(), Typeflag: tar.TypeReg, Format: tar.FormatPAX,
	}
	if strings.HasSuffix(e.path, "/") {
		header.Typeflag, header.Mode = tar.TypeDir, cmp.Or(e.mode, 0o755)
	}
	var content io.Reader = strings.NewReader(e.content)
	if e.file != "" {
		file, err := os.Open(e.file)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		content, header.Size = file, info.Size()
	}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(archive, content)
	return err
}
