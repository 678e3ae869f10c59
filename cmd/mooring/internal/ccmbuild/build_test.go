package ccmbuild

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBuildFromDirectory(t *testing.T) {
	isolate(t, nil)
	s := newStand(t)
	before, err := os.ReadFile(s.path("mycloud/go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	o := s.options("./mycloud/sub")
	write(t, s.path("mycloud/go.mod"), string(before)+"\nreplace example.com/lib => ./lib\n")
	if before, err = os.ReadFile(s.path("mycloud/go.mod")); err != nil {
		t.Fatal(err)
	}
	warned := 0
	o.Progress = &cancelAt{text: "add --replace example.com/lib=" + s.path("mycloud/lib"), cancel: func() { warned++ }}
	result := s.build(o)
	if warned != 1 {
		t.Errorf("%d warnings of a replace directive that does not count, want one", warned)
	}
	if !slices.Equal(result.Providers, []string{"mycloud"}) || result.Program != "out/program" || result.Go == "" {
		t.Errorf("result %+v", result)
	}
	if got := says(t, s.path("out/program"), "mycloud"); got != "daemon mycloud true" {
		t.Errorf("the program says %q", got)
	}
	if after, err := os.ReadFile(s.path("mycloud/go.mod")); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the provider's go.mod was changed: %v\n%s", err, after)
	}
}

// A package below its module's root is found, in the version that was asked for, and a second one beside it.
func TestBuildFromModules(t *testing.T) {
	served := modules{
		"example.com/far@v1.0.0":  {"go.mod": goMod("example.com/far", contract), "a/b/p.go": registers("b", "old")},
		"example.com/far@v1.1.0":  {"go.mod": goMod("example.com/far", contract), "a/b/p.go": registers("b", "new")},
		"example.com/near@v0.1.0": {"go.mod": goMod("example.com/near", contract), "p.go": registers("near", "near")},
	}
	isolate(t, served)
	s := newStand(t)
	got := s.build(s.options("example.com/far/a/b@v1.0.0", "example.com/near")).Providers
	if !slices.Equal(got, []string{"near", "old"}) {
		t.Errorf("providers %v", got)
	}
	if got := s.build(s.options("example.com/far/a/b")).Providers; !slices.Equal(got, []string{"new"}) {
		t.Errorf("without a version: providers %v, want the newest version's", got)
	}
	o := s.options("example.com/far/a/b")
	older := Replacement{Module: "example.com/far", NewModule: "example.com/far", NewVersion: "v1.0.0"}
	o.Request.Replacements = append(o.Request.Replacements, older)
	if got := s.build(o).Providers; !slices.Equal(got, []string{"old"}) {
		t.Errorf("replaced by an older version: providers %v", got)
	}
	o = s.options("example.com/mycloud/sub")
	o.Request.Replacements = append(o.Request.Replacements, Replacement{Module: "example.com/mycloud", Dir: "./mycloud"})
	if got := s.build(o).Providers; !slices.Equal(got, []string{"mycloud"}) {
		t.Errorf("replaced by a directory: providers %v", got)
	}
}

func TestBuildTool(t *testing.T) {
	isolate(t, nil)
	s := newStand(t)
	o := s.options("./mycloud/sub")
	o.Request.Tool = true
	s.build(o)
	if got := says(t, s.path("out/program"), "mycloud"); got != "tool mycloud true" {
		t.Errorf("the program says %q", got)
	}
}

// The same sources in another place give the same bytes, of the program, of the image and of the list of modules.
func TestBuildIsReproducible(t *testing.T) {
	isolate(t, nil)
	var all [][]string
	for range 2 {
		s := newStand(t)
		o := s.options("./mycloud/sub")
		o.Image.File = "out/image.tar"
		s.build(o)
		var contents []string
		for _, name := range []string{"program", "image.tar", "image.spdx.json"} {
			content, err := os.ReadFile(s.path("out/" + name))
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(content, []byte(s.dir)) || bytes.Contains(content, []byte(os.TempDir())) {
				t.Errorf("%s holds a path of this machine", name)
			}
			contents = append(contents, string(content))
		}
		all = append(all, contents)
	}
	for i, name := range []string{"program", "image", "list of modules"} {
		if all[0][i] != all[1][i] {
			t.Errorf("two builds give another %s", name)
		}
	}
}

func TestBuildImage(t *testing.T) {
	isolate(t, nil)
	s := newStand(t)
	o := s.options("./mycloud/sub")
	o.Output = ""
	o.Request.Platforms = []Platform{{OS: "linux", Arch: "amd64"}, {OS: "linux", Arch: "arm64"}}
	o.Image = ImageOptions{File: "out/ccm.tar", Reference: "ccm:v1"}
	o.Image.Labels = map[string]string{"org.opencontainers.image.vendor": "me"}
	result := s.build(o)
	sbom, err := os.ReadFile(s.path("out/ccm.spdx.json"))
	for _, want := range []string{`: "example.com/mycloud"`, `: "stdlib"`, "built for linux/arm64", "built for linux/amd64"} {
		if err != nil || !strings.Contains(string(sbom), want) {
			t.Errorf("the list of modules does not say %s: %v\n%s", want, err, sbom)
		}
	}
	labeled, programs := 0, 0
	o.Image.Certificates = "mycloud/go.mod"
	if _, err := Build(t.Context(), o); err == nil || !strings.Contains(err.Error(), "holds no PEM certificate") {
		t.Errorf("certificates that are none: %v", err)
	}
	s.leavesNothing()
	for name, content := range blobs(t, s.path("out/ccm.tar")) {
		var config struct {
			Architecture string
			Config       struct{ Labels map[string]string }
		}
		if json.Unmarshal(content, &config) == nil && config.Architecture != "" {
			labels := config.Config.Labels
			if labels["org.opencontainers.image.vendor"] == "me" && labels["org.opencontainers.image.title"] == "cloud-controller-manager" &&
				strings.Contains(labels["org.opencontainers.image.description"], "providers mycloud") {
				labeled++
			}
		}
		if strings.HasSuffix(result.Digest, filepath.Base(name)) {
			programs = strings.Count(string(content), `"architecture":`)
		}
	}
	if labeled != 2 || programs != 2 {
		t.Errorf("%d labeled images, and %d in the index %s; want 2 of each", labeled, programs, result.Digest)
	}
}

// A platform that the go tool does not know is refused before anything is looked up.
func TestAnUnknownPlatform(t *testing.T) {
	isolate(t, nil)
	s := newStand(t)
	o := s.options("example.com/nowhere")
	o.Request.Platforms = []Platform{{OS: "linux", Arch: "foo"}}
	if _, err := Build(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--platform linux/foo: ") {
		t.Errorf("error %v", err)
	}
	s.leavesNothing()
}

// Without packages the program is Mooring's own.
func TestBuildShipped(t *testing.T) {
	isolate(t, nil)
	s := newStand(t)
	o := s.options()
	o.Request.Shipped = true
	o.Image.File = "out/shipped.tar"
	s.build(o)
	if got := says(t, s.path("out/program"), "mycloud"); got != "daemon mycloud false" {
		t.Errorf("the program says %q", got)
	}
	sbom, err := os.ReadFile(s.path("out/shipped.spdx.json"))
	if err != nil || !strings.Contains(string(sbom), `"name": "`+Module+`"`) {
		t.Errorf("Mooring is not in the list of modules: %v\n%s", err, sbom)
	}
}

// blobs returns the files of a tar.
func blobs(t *testing.T, file string) map[string][]byte {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	found := map[string][]byte{}
	packed := tar.NewReader(in)
	for {
		header, err := packed.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err == nil {
			found[header.Name], err = io.ReadAll(packed)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// What was there before stays when a build fails, and when it is interrupted.
func TestNothingHalfWritten(t *testing.T) {
	isolate(t, nil)
	s := newStand(t)
	write(t, s.path("out/program"), "the one that works")
	write(t, s.path("mycloud/sub/broken.go"), "package sub\n\nvar _ = missing\n")
	if _, err := Build(t.Context(), s.options("./mycloud/sub")); err == nil {
		t.Error("what does not compile was built")
	}
	s.leavesNothing()
	write(t, s.path("mycloud/sub/broken.go"), "package sub\n\nfunc init() { select {} }\n\nfunc init() { go func() { for {} }() }\n")
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("enough")
	o := s.options("./mycloud/sub")
	o.Progress = &cancelAt{text: "lists the providers: built", cancel: func() { cancel(stopped) }}
	begun := time.Now()
	if _, err := Build(ctx, o); !errors.Is(err, stopped) {
		t.Errorf("error %v, want the cause of the end", err)
	}
	if took := time.Since(begun); took > probeTimeout {
		t.Errorf("it took %s to end", took)
	}
	s.leavesNothing()
	if content, err := os.ReadFile(s.path("out/program")); err != nil || string(content) != "the one that works" {
		t.Errorf("the program that was there is %q, %v", content, err)
	}
	if _, err := os.Stat(s.path("out/image.tar")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an image appeared: %v", err)
	}
}

// cancelAt cancels when a text is written.
type cancelAt struct {
	text   string
	cancel func()
}

func (c *cancelAt) Write(line []byte) (int, error) {
	if strings.Contains(string(line), c.text) {
		c.cancel()
	}
	return len(line), nil
}

// A module that builds only with the replace directives of its own go.mod builds when these are asked for, from a proxy and from a directory.
func TestReplacesOfAModule(t *testing.T) {
	lines := []string{contract, "require example.com/lib v0.0.0", "replace example.com/lib => example.com/lib v1.2.0"}
	program := strings.Replace(registers("old", "old"), `	"io"`, "\t_ \"example.com/lib\"\n\t\"io\"", 1)
	isolate(t, modules{
		"example.com/lib@v1.2.0": {"go.mod": goMod("example.com/lib"), "p.go": "package lib\n"},
		"example.com/old@v1.0.0": {"go.mod": goMod("example.com/old", append(lines, "replace example.com/here => ./here")...), "p.go": program},
	})
	s := newStand(t)
	o := s.options("example.com/old@v1.0.0")
	o.Request.ReplacesOf = []string{"example.com/old"}
	if got := s.build(o).Providers; !slices.Equal(got, []string{"old"}) {
		t.Errorf("providers %v", got)
	}
	write(t, s.path("near/go.mod"), goMod("example.com/near", lines...))
	write(t, s.path("near/p.go"), program)
	o = s.options("./near")
	o.Request.ReplacesOf = []string{"example.com/near"}
	warned := 0
	o.Progress = &cancelAt{text: "Go does not apply that here", cancel: func() { warned++ }}
	if got := s.build(o).Providers; !slices.Equal(got, []string{"old"}) || warned > 0 {
		t.Errorf("providers %v, %d warnings", got, warned)
	}
}
