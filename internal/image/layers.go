package image

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// entry is a file or a directory of a layer.
type entry struct {
	// path is absolute. A directory's ends in a slash.
	path string
	mode int64
	// content is what the file holds, and file where that is if it is large.
	content []byte
	file    string
}

const (
	passwd = "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"
	group  = "root:x:0:\nnonroot:x:65532:\n"
)

// sharedLayers are the layers that are the same for all platforms.
func (o Options) sharedLayers(ctx context.Context) ([]v1.Layer, error) {
	entries := []entry{
		{path: "/etc/"},
		{path: "/etc/group", content: []byte(group)},
		{path: "/etc/passwd", content: []byte(passwd)},
		{path: "/tmp/", mode: 0o1777},
	}
	if len(o.Certificates) > 0 {
		entries = append(entries, entry{path: "/etc/ssl/"}, entry{path: "/etc/ssl/certs/"},
			entry{path: certificatesPath, content: o.Certificates})
	}
	if len(o.SBOM) > 0 {
		entries = append(entries, entry{path: "/usr/"}, entry{path: "/usr/share/"}, entry{path: sbomDir + "/"},
			entry{path: path.Join(sbomDir, o.Name+".spdx.json"), content: o.SBOM})
	}
	layer, err := o.layer(ctx, entries)
	if err != nil {
		return nil, err
	}
	return []v1.Layer{layer}, nil
}

func (o Options) programLayer(ctx context.Context, program Program) (v1.Layer, error) {
	return o.layer(ctx, []entry{
		{path: "/usr/"}, {path: "/usr/local/"}, {path: programDir + "/"},
		{path: path.Join(programDir, o.Name), mode: 0o755, file: program.File},
	})
}

// layer packs entries. It is read several times, for its digests and to write it, but compressed only once. It cannot be read any
// more when ctx ends.
func (o Options) layer(ctx context.Context, entries []entry) (v1.Layer, error) {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		reader, writer := io.Pipe()
		go func() { writer.CloseWithError(pack(untilDone{ctx, writer}, entries, o.created())) }()
		return reader, nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("layer with %s: %w", entries[len(entries)-1].path, err)
	}
	return layer, nil
}

// untilDone is a writer that fails once its context has ended.
type untilDone struct {
	ctx context.Context
	out io.Writer
}

// Write implements io.Writer.
func (w untilDone) Write(data []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, context.Cause(w.ctx)
	}
	return w.out.Write(data)
}

// pack writes entries as a tar file. All of them belong to root, so that the program cannot change what it runs.
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
		Name: strings.TrimPrefix(e.path, "/"), Mode: e.mode, ModTime: modified, Typeflag: tar.TypeReg, Format: tar.FormatPAX,
	}
	if strings.HasSuffix(e.path, "/") {
		header.Typeflag = tar.TypeDir
	}
	if header.Mode == 0 {
		header.Mode = map[byte]int64{tar.TypeReg: 0o644, tar.TypeDir: 0o755}[header.Typeflag]
	}
	var content io.Reader = bytes.NewReader(e.content)
	header.Size = int64(len(e.content))
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
