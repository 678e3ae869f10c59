package worker

import (
	"archive/tar"
	"bytes"
	"io"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/mooring-ccm/mooring/dev/must"
)

// Image is an image of programs of this machine. Paths in it have no slash at their beginning.
type Image struct {
	// Reference is what it is called.
	Reference string
	// Entrypoint and Command are what a container of it runs.
	Entrypoint, Command []string
	// Files are its programs and libraries, with the files on this machine that they are copies of.
	Files map[string]string
	// Links are its symbolic links, with where they lead. Texts are its small files, with what they say.
	Links, Texts map[string]string
	// Dirs are folders which everyone may write to.
	Dirs []string
}

// Write writes the image into a file, which a runtime can import. One that reads an older file of this name goes on.
func (i Image) Write(t *testing.T, file string) {
	t.Helper()
	layers, whole := file+".layer", file+".new"
	i.writeLayer(t, layers)
	defer os.Remove(layers)
	layer := must.Value(tarball.LayerFromFile(layers))(t)
	image := must.Value(mutate.AppendLayers(empty.Image, layer))(t)
	config := must.Value(image.ConfigFile())(t)
	image = must.Value(mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: runtime.GOARCH, OS: "linux", RootFS: config.RootFS, Config: v1.Config{Entrypoint: i.Entrypoint, Cmd: i.Command},
	}))(t)
	must.NoError(t, tarball.WriteToFile(whole, must.Value(name.NewTag(i.Reference))(t), image))
	must.NoError(t, os.Rename(whole, file))
}

func (i Image) writeLayer(t *testing.T, file string) {
	t.Helper()
	output := must.Value(os.Create(file))(t)
	defer output.Close()
	archive := tar.NewWriter(output)
	made := map[string]bool{".": true}
	add := func(header tar.Header, content io.Reader) {
		for _, dir := range parents(header.Name) {
			if !made[dir] {
				must.NoError(t, archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}))
				made[dir] = true
			}
		}
		must.NoError(t, archive.WriteHeader(&header))
		if content != nil {
			must.Value(io.Copy(archive, content))(t)
		}
	}
	for _, dir := range i.Dirs {
		add(tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o1777}, nil)
		made[dir] = true
	}
	for _, to := range slices.Sorted(maps.Keys(i.Files)) {
		content := must.Value(os.ReadFile(i.Files[to]))(t)
		add(tar.Header{Typeflag: tar.TypeReg, Name: to, Mode: 0o755, Size: int64(len(content))}, bytes.NewReader(content))
	}
	for _, to := range slices.Sorted(maps.Keys(i.Texts)) {
		add(tar.Header{Typeflag: tar.TypeReg, Name: to, Mode: 0o644, Size: int64(len(i.Texts[to]))}, strings.NewReader(i.Texts[to]))
	}
	for _, to := range slices.Sorted(maps.Keys(i.Links)) {
		add(tar.Header{Typeflag: tar.TypeSymlink, Name: to, Linkname: i.Links[to], Mode: 0o777}, nil)
	}
	must.NoError(t, archive.Close())
}

// parents are the folders that a path is in, the outermost first.
func parents(of string) []string {
	dir := path.Dir(path.Clean(of))
	if dir == "." {
		return nil
	}
	return append(parents(dir), dir)
}
