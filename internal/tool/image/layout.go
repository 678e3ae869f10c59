package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Write writes the image to a file, as a tar of an OCI image layout (opencontainers/image-spec, image-layout.md), and returns
// the digest of what the layout's index points to: the image's manifest, or the index of the images of several platforms. Names
// in the tar are sorted. scratch is a directory for files that it leaves there. When ctx ends, Write
// returns its cause and leaves what it has written.
func Write(ctx context.Context, file, scratch string, options Options) (v1.Hash, error) {
	options.Created = orEpoch(options.Created)
	content, err := options.content(ctx)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("image: %w", err)
	}
	digest, err := content.Digest()
	if err != nil {
		return v1.Hash{}, fmt.Errorf("image: %w", err)
	}
	return digest, Archive(file, scratch, content, options.referenceAnnotations(), options.Created)
}

// Archive writes an image, an index of images or another OCI artifact to a file, as a tar of an OCI image layout whose index points
// to it with annotations. scratch is a directory for files that it leaves there, and modified the time of all files.
func Archive(file, scratch string, content mutate.Appendable, annotations map[string]string, modified time.Time) (err error) {
	dir, err := os.MkdirTemp(scratch, "layout-")
	if err != nil {
		return fmt.Errorf("image layout: %w", err)
	}
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("image layout: %w", err)
	}
	if index, ok := content.(v1.ImageIndex); ok {
		err = to.AppendIndex(index, layout.WithAnnotations(annotations))
	} else {
		err = to.AppendImage(content.(v1.Image), layout.WithAnnotations(annotations))
	}
	if err != nil {
		return fmt.Errorf("image layout: %w", err)
	}
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := Pack(out, dir, modified); err != nil {
		return fmt.Errorf("image %s: %w", file, err)
	}
	return nil
}

// Pack writes the files below a directory as a tar file. The same names and contents give the same bytes on any machine: names are
// sorted, all belongs to root, modified is the time of everything, and only the files of the names programs can be executed.
func Pack(out io.Writer, dir string, modified time.Time, programs ...string) error {
	var entries []entry
	err := filepath.WalkDir(dir, func(path string, found fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		e := entry{path: filepath.ToSlash(name), file: path}
		switch {
		case found.IsDir():
			e = entry{path: e.path + "/"}
		case slices.Contains(programs, e.path):
			e.mode = 0o755
		}
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		return err
	}
	return pack(out, entries, modified)
}

// CheckReference returns an error for a text that is no name and tag of an image in a registry. The registry must be named: there is
// no default.
func CheckReference(reference string) error {
	_, err := name.NewTag(reference, name.StrictValidation)
	return err
}

// Push sends what a tar of an OCI image layout holds, as Write makes it, to a registry under a name and tag, and returns the digest by
// which it can be pulled. Credentials are those of the container tools of this user (their config.json). A registry on a loopback
// address is spoken to without TLS. scratch is a directory for files that it leaves there.
func Push(ctx context.Context, tarball, scratch, reference string) (v1.Hash, error) {
	tag, err := name.NewTag(reference, name.StrictValidation)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("push: %w", err)
	}
	digest, content, err := read(tarball, scratch)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("push %s: read %s: %w", tag, tarball, err)
	}
	if err := remote.Push(tag, content, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return digest, fmt.Errorf("push %s: %w; the file is there, and can be pushed by any other tool", tag, err)
	}
	return digest, nil
}

// read returns the only image, or index of images, of a tar of an OCI image layout.
func read(tarball, scratch string) (v1.Hash, remote.Taggable, error) {
	dir, err := os.MkdirTemp(scratch, "push-")
	if err != nil {
		return v1.Hash{}, nil, err
	}
	if err := extract(tarball, dir); err != nil {
		return v1.Hash{}, nil, err
	}
	root, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return v1.Hash{}, nil, err
	}
	found, err := partial.Manifests(root)
	if err != nil {
		return v1.Hash{}, nil, err
	}
	if len(found) != 1 {
		return v1.Hash{}, nil, fmt.Errorf("it holds %d images, want one", len(found))
	}
	content, ok := found[0].(remote.Taggable)
	if !ok {
		return v1.Hash{}, nil, errors.New("it holds no image")
	}
	digest, err := found[0].Digest()
	return digest, content, err
}

// extract writes the files of a tar into a directory. A name that leads out of it is an error.
func extract(tarball, dir string) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	file, err := os.Open(tarball)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	packed := tar.NewReader(file)
	for {
		header, err := packed.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(packed)
		if err != nil {
			return err
		}
		if err := errors.Join(root.MkdirAll(filepath.Dir(header.Name), 0o755), root.WriteFile(header.Name, content, 0o600)); err != nil {
			return err
		}
	}
}
