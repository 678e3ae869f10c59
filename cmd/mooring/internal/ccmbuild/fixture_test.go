package ccmbuild

import (
	"archive/zip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// These tests run the real go tool. What they build is small: testdata holds modules that have the paths of Mooring and of
// k8s.io/cloud-provider, and nothing of Kubernetes. cmd/mooring builds the real ones.

// modules is a module proxy: the files of modules, by MODULE@VERSION.
type modules map[string]map[string]string

// isolate gives the go tool a proxy with these modules and no network, and a module cache of its own.
func isolate(t *testing.T, served modules) {
	t.Helper()
	proxy := t.TempDir()
	for name, files := range served {
		serve(t, proxy, name, files)
	}
	t.Setenv("GOPROXY", "file://"+filepath.ToSlash(proxy))
	t.Setenv("GOSUMDB", "off")
	t.Setenv("GOTOOLCHAIN", "local")
	t.Setenv("GOMODCACHE", filepath.Join(t.TempDir(), "modules"))
	t.Setenv("GOFLAGS", "-modcacherw")
	t.Setenv("TMPDIR", t.TempDir())
}

// serve writes a module in the layout of a proxy (go.dev/ref/mod#goproxy-protocol).
func serve(t *testing.T, proxy, name string, files map[string]string) {
	t.Helper()
	module, version, _ := strings.Cut(name, "@")
	dir := filepath.Join(proxy, module, "@v")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	list, err := os.OpenFile(filepath.Join(dir, "list"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(list, version); err != nil {
		t.Fatal(err)
	}
	if err := list.Close(); err != nil {
		t.Fatal(err)
	}
	archive, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	packed := zip.NewWriter(archive)
	for file, content := range files {
		out, err := packed.Create(name + "/" + file)
		if err == nil {
			_, err = out.Write([]byte(content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, version+".info"), fmt.Sprintf(`{"Version": %q}`, version))
	write(t, filepath.Join(dir, version+".mod"), files["go.mod"])
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// contract is what a provider requires.
const contract = "require k8s.io/cloud-provider v0.36.3"

// goMod is a go.mod with requirements and other lines.
func goMod(module string, lines ...string) string {
	return "module " + module + "\n\ngo 1.26.0\n\n" + strings.Join(lines, "\n") + "\n"
}

// registers is the source of a package that registers a provider.
func registers(pkg, provider string) string {
	return "package " + pkg + `

import (
	"io"

	cloudprovider "k8s.io/cloud-provider"
)

func init() { cloudprovider.RegisterCloudProvider("` + provider + `", build) }

func build(io.Reader) (cloudprovider.Interface, error) { return nil, nil }
`
}

// stand is a directory of a test: copies of testdata, and where it builds to.
type stand struct {
	t   *testing.T
	dir string
}

func newStand(t *testing.T) stand {
	t.Helper()
	s := stand{t, t.TempDir()}
	if err := os.CopyFS(s.dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	return s
}

// options are those of a build with packages, which are relative to the stand.
func (s stand) options(with ...string) Options {
	s.t.Helper()
	o := Options{Dir: s.dir, Output: "out/program", Progress: &tell{t: s.t}}
	for _, text := range with {
		parsed, err := ParsePackage(text)
		if err != nil {
			s.t.Fatal(err)
		}
		o.Request.Packages = append(o.Request.Packages, parsed)
	}
	o.Request.Replacements = []Replacement{
		{Module: Module, Dir: "./mooring"}, {Module: "k8s.io/cloud-provider", Dir: "./cloud-provider"},
	}
	if err := os.MkdirAll(s.path("out"), 0o700); err != nil {
		s.t.Fatal(err)
	}
	return o
}

func (s stand) path(name string) string { return filepath.Join(s.dir, name) }

// build builds what must succeed.
func (s stand) build(o Options) Result {
	s.t.Helper()
	result, err := Build(s.t.Context(), o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.leavesNothing()
	return result
}

// leavesNothing checks that no temporary file is left.
func (s stand) leavesNothing() {
	s.t.Helper()
	for _, pattern := range []string{filepath.Join(os.TempDir(), "mooring-build-*"), s.path("out/.mooring-build-*")} {
		if left, err := filepath.Glob(pattern); err != nil || len(left) > 0 {
			s.t.Errorf("left behind: %v %v", left, err)
		}
	}
}

// says runs a program with an argument and returns what it writes.
func says(t *testing.T, program, argument string) string {
	t.Helper()
	output, err := exec.CommandContext(context.WithoutCancel(t.Context()), program, argument).CombinedOutput()
	if err != nil {
		t.Fatalf("running %s: %v\n%s", program, err, output)
	}
	return strings.TrimSpace(string(output))
}

// tell shows progress in the log of a test.
type tell struct{ t *testing.T }

func (w *tell) Write(line []byte) (int, error) {
	w.t.Logf("%s", strings.TrimSpace(string(line)))
	return len(line), nil
}
