package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// compile builds a small program for platforms.
func compile(t *testing.T, platforms ...string) []Program {
	t.Helper()
	dir := t.TempDir()
	source := "package main\n\nimport \"os\"\n\nfunc main() { println(\"ahoy\", os.Args[1]) }\n"
	for name, content := range map[string]string{"go.mod": "module ahoy\n\ngo 1.26.0\n", "main.go": source} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var programs []Program
	for _, text := range platforms {
		platform, err := v1.ParsePlatform(text)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, platform.Architecture)
		command := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", file, ".")
		command.Dir = dir
		command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+platform.OS, "GOARCH="+platform.Architecture)
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("building for %s: %v\n%s", text, err, output)
		}
		programs = append(programs, Program{Platform: *platform, File: file})
	}
	return programs
}

// unpack reads a tar into a directory, and checks what makes it the same everywhere: the order, the times, the owners.
func unpack(t *testing.T, file string, modified time.Time) string {
	t.Helper()
	dir := t.TempDir()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	var names []string
	packed := tar.NewReader(in)
	for {
		header, err := packed.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		if !header.ModTime.Equal(modified) || header.Uid != 0 || header.Uname != "" {
			t.Errorf("%s: of %s, by %d %q", header.Name, header.ModTime, header.Uid, header.Uname)
		}
		to := filepath.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(to, 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		content, err := io.ReadAll(packed)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("names in the tar are not sorted: %v", names)
	}
	return dir
}

// checkLayout checks a directory against the rules of image-spec's image-layout.md. It requires a version, an index, blobs named by their digests,
// and descriptors with the right sizes. Every blob must be referenced.
func checkLayout(t *testing.T, dir string) {
	t.Helper()
	version, err := os.ReadFile(filepath.Join(dir, "oci-layout"))
	var marker struct{ ImageLayoutVersion string }
	if err != nil || json.Unmarshal(version, &marker) != nil || marker.ImageLayoutVersion != "1.0.0" {
		t.Errorf("oci-layout: %s %v", version, err)
	}
	index, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	reached := map[string]bool{}
	follow(t, dir, index, reached)
	err = filepath.WalkDir(filepath.Join(dir, "blobs"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if digest := sha256.Sum256(content); hex.EncodeToString(digest[:]) != entry.Name() {
			t.Errorf("blob %s has another digest", entry.Name())
		}
		if !reached["sha256:"+entry.Name()] {
			t.Errorf("nothing points to blob %s", entry.Name())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// follow visits what a manifest or an index points to.
func follow(t *testing.T, dir string, content []byte, reached map[string]bool) {
	t.Helper()
	type descriptor struct {
		MediaType, Digest string
		Size              int64
	}
	var document struct {
		SchemaVersion     int
		Manifests, Layers []descriptor
		Config            *descriptor
	}
	if err := json.Unmarshal(content, &document); err != nil || document.SchemaVersion != 2 {
		t.Errorf("no manifest and no index of version 2: %v\n%s", err, content)
	}
	targets := append(document.Manifests, document.Layers...)
	if document.Config != nil {
		targets = append(targets, *document.Config)
	}
	for _, target := range targets {
		reached[target.Digest] = true
		blob, err := os.ReadFile(filepath.Join(dir, "blobs", strings.ReplaceAll(target.Digest, ":", "/")))
		if err != nil || int64(len(blob)) != target.Size {
			t.Errorf("%s: %d bytes, described as %d: %v", target.Digest, len(blob), target.Size, err)
		}
		if !strings.HasPrefix(target.MediaType, "application/vnd.oci.image.") {
			t.Errorf("%s is a %q, which is not OCI's", target.Digest, target.MediaType)
		}
		if target.MediaType == string(types.OCIManifestSchema1) || target.MediaType == string(types.OCIImageIndex) {
			follow(t, dir, blob, reached)
		}
	}
}

// files returns what is in an image's file system, with its mode.
func files(t *testing.T, image v1.Image) map[string]*tar.Header {
	t.Helper()
	found := map[string]*tar.Header{}
	in := mutate.Extract(image)
	defer func() { _ = in.Close() }()
	packed := tar.NewReader(in)
	for {
		header, err := packed.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 {
			t.Errorf("%s belongs to %d:%d", header.Name, header.Uid, header.Gid)
		}
		if found[header.Name] = header; strings.HasSuffix(header.Name, "/ahoy") {
			content, err := io.ReadAll(packed)
			if err != nil {
				t.Fatal(err)
			}
			runs(t, content)
		}
	}
}

// runs starts a program that was in an image.
func runs(t *testing.T, program []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, program, 0o700); err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), file, "there").CombinedOutput()
	if err != nil || string(output) != "ahoy there\n" {
		t.Errorf("the program in the image says %q, %v", output, err)
	}
}

func options(programs []Program) Options {
	return Options{
		Name: "ahoy", Programs: programs, Certificates: []byte("certificates"), SBOM: []byte("{}"),
		Labels:    map[string]string{"org.opencontainers.image.title": "ahoy"},
		Reference: "registry.example:5000/ahoy:v1", Created: time.Unix(1_700_000_000, 0),
	}
}

func TestImageForOnePlatform(t *testing.T) {
	o := options(compile(t, "linux/"+runtime.GOARCH))
	file := filepath.Join(t.TempDir(), "ahoy.tar")
	digest, err := Write(t.Context(), file, t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	dir := unpack(t, file, o.Created)
	checkLayout(t, dir)
	read, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	image, err := read.Image(digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintln(config.Config.Entrypoint, config.Config.User, config.OS, config.Architecture, config.Created.Unix(),
		config.Config.Labels)
	want := fmt.Sprintln([]string{"/usr/local/bin/ahoy"}, "65532:65532", "linux", runtime.GOARCH, 1_700_000_000, o.Labels)
	if got != want {
		t.Errorf("configuration:\n%swant:\n%s", got, want)
	}
	modes := map[string]int64{
		"usr/local/bin/ahoy": 0o755, "etc/passwd": 0o644, "etc/group": 0o644, "tmp": 0o1777,
		"etc/ssl/certs/ca-certificates.crt": 0o644, "usr/share/sbom/ahoy.spdx.json": 0o644,
	}
	found := files(t, image)
	for name, mode := range modes {
		if header := found[name]; header == nil || header.Mode != mode {
			t.Errorf("%s: %+v, want mode %o", name, header, mode)
		}
	}
	index, err := os.ReadFile(filepath.Join(dir, "index.json"))
	for _, want := range []string{
		`"io.containerd.image.name": "registry.example:5000/ahoy:v1"`, `"org.opencontainers.image.ref.name": "v1"`,
	} {
		if err != nil || !strings.Contains(string(index), want) {
			t.Errorf("index.json does not say %s:\n%s", want, index)
		}
	}
}

func TestImageForSeveralPlatforms(t *testing.T) {
	o := options(compile(t, "linux/amd64", "linux/arm64"))
	file := filepath.Join(t.TempDir(), "ahoy.tar")
	digest, err := Write(t.Context(), file, t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	dir := unpack(t, file, o.Created)
	checkLayout(t, dir)
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	index, err := top.ImageIndex(digest)
	if err != nil {
		t.Fatalf("the layout does not point to %s: %v", digest, err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms, shared []string
	for _, descriptor := range manifest.Manifests {
		platforms = append(platforms, descriptor.Platform.String())
		image, err := index.Image(descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}
		layers, err := image.Layers()
		if err != nil {
			t.Fatal(err)
		}
		first, err := layers[0].Digest()
		if err != nil {
			t.Fatal(err)
		}
		shared = append(shared, first.String())
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(platforms, want) {
		t.Errorf("platforms %v, want %v", platforms, want)
	}
	if shared[0] != shared[1] {
		t.Errorf("the platforms share no layer: %v", shared)
	}
}

// What is the same goes in, the same bytes come out, whenever and wherever that is.
func TestImageIsReproducible(t *testing.T) {
	programs := compile(t, "linux/amd64", "linux/arm64")
	var tars [][]byte
	for range 2 {
		file := filepath.Join(t.TempDir(), "ahoy.tar")
		if _, err := Write(t.Context(), file, t.TempDir(), options(programs)); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tars = append(tars, content)
		later := time.Now().Add(time.Hour)
		for _, program := range programs {
			if err := os.Chtimes(program.File, later, later); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !bytes.Equal(tars[0], tars[1]) {
		t.Error("two images of the same programs differ")
	}
}

func TestImageIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	o := options([]Program{{Platform: v1.Platform{OS: "linux", Architecture: "amd64"}, File: os.Args[0]}})
	if _, err := Write(ctx, filepath.Join(t.TempDir(), "x.tar"), t.TempDir(), o); !errors.Is(err, enough) {
		t.Errorf("error %v, want the cause of the end", err)
	}
}

func TestImageRefuses(t *testing.T) {
	linux := Program{Platform: v1.Platform{OS: "linux", Architecture: "amd64"}, File: "/nowhere"}
	for name, c := range map[string]struct {
		options Options
		want    string
	}{
		"nothing":     {Options{}, "no program"},
		"a path":      {Options{Name: "bin/ahoy", Programs: []Program{linux}}, `name "bin/ahoy"`},
		"another OS":  {Options{Name: "x", Programs: []Program{{Platform: v1.Platform{OS: "darwin"}}}}, "an image is for linux"},
		"twice":       {Options{Name: "x", Programs: []Program{linux, linux}}, "linux/amd64: given twice"},
		"what is not": {Options{Name: "x", Programs: []Program{linux}}, "/nowhere"},
	} {
		file := filepath.Join(t.TempDir(), "x.tar")
		if _, err := Write(t.Context(), file, t.TempDir(), c.options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one that says %q", name, err, c.want)
		}
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a file was written", name)
		}
	}
}
