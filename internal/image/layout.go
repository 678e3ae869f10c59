package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// Write writes the image to a file, as a tar of an OCI image layout (opencontainers/image-spec, image-layout.md), and returns
// the digest of what the layout's index points to: the image's manifest, or the index of the images of several platforms. Names
// in the tar are sorted. scratch is a directory for files that it leaves there. When ctx ends, Write
// returns its cause and leaves what it has written.
func Write(ctx context.Context, file, scratch string, options Options) (v1.Hash, error) {
	content, err := options.content(ctx)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("image: %w", err)
	}
	digest, err := content.(interface{ Digest() (v1.Hash, error) }).Digest()
	if err != nil {
		return v1.Hash{}, fmt.Errorf("image: %w", err)
	}
	return digest, Archive(file, scratch, content, options.referenceAnnotations(), options.created())
}

// Archive writes an image, an index of images or another OCI artifact to a file, as a tar of an OCI image layout whose index points
// to it with annotations. scratch is a directory for files that it leaves there, and modified the time of all files.
func Archive(file, scratch string, content mutate.Appendable, annotations map[string]string, modified time.Time) error {
	dir, err := os.MkdirTemp(scratch, "layout-")
	if err != nil {
		return fmt.Errorf("image layout: %w", err)
	}
	if err := writeLayout(dir, content, annotations); err != nil {
		return fmt.Errorf("image layout: %w", err)
	}
	if err := archive(file, dir, modified); err != nil {
		return fmt.Errorf("image %s: %w", file, err)
	}
	return nil
}

// writeLayout writes the directory that the tar is made of.
func writeLayout(dir string, content mutate.Appendable, annotations map[string]string) error {
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	option := layout.WithAnnotations(annotations)
	if index, ok := content.(v1.ImageIndex); ok {
		return to.AppendIndex(index, option)
	}
	return to.AppendImage(content.(v1.Image), option)
}

// archive packs a directory into a new file.
func archive(file, dir string, modified time.Time) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	packed := tar.NewWriter(out)
	err = filepath.WalkDir(dir, func(path string, found fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		e := entry{path: filepath.ToSlash(name), file: path}
		if found.IsDir() {
			e = entry{path: e.path + "/"}
		}
		return e.pack(packed, modified)
	})
	return errors.Join(err, packed.Close())
}
