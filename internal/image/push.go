package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// CheckReference returns an error for a text that is no name and tag of an image in a registry. The registry must be named: there is
// none that is meant without a name.
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
	dir, err := os.MkdirTemp(scratch, "push-")
	if err != nil {
		return v1.Hash{}, fmt.Errorf("push %s: %w", tag, err)
	}
	if err := extract(tarball, dir); err != nil {
		return v1.Hash{}, fmt.Errorf("push %s: read %s: %w", tag, tarball, err)
	}
	root, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("push %s: read %s: %w", tag, tarball, err)
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		return v1.Hash{}, fmt.Errorf("push %s: read %s: %w", tag, tarball, err)
	}
	if len(manifest.Manifests) != 1 {
		return v1.Hash{}, fmt.Errorf("push %s: %s holds %d images, want one", tag, tarball, len(manifest.Manifests))
	}
	digest := manifest.Manifests[0].Digest
	if manifest.Manifests[0].MediaType.IsIndex() {
		index, err := root.ImageIndex(digest)
		if err != nil {
			return v1.Hash{}, fmt.Errorf("push %s: read %s: %w", tag, tarball, err)
		}
		err = remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
		return digest, pushError(tag, err)
	}
	image, err := root.Image(digest)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("push %s: read %s: %w", tag, tarball, err)
	}
	err = remote.Write(tag, image, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	return digest, pushError(tag, err)
}

func pushError(tag name.Tag, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("push %s: %w; the file is there, and can be pushed by any other tool", tag, err)
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
		if err := root.MkdirAll(filepath.Dir(header.Name), 0o755); err != nil {
			return err
		}
		out, err := root.Create(header.Name)
		if err != nil {
			return err
		}
		if _, err := io.Copy(out, packed); err != nil {
			return errors.Join(err, out.Close())
		}
		if err := out.Close(); err != nil {
			return err
		}
	}
}
