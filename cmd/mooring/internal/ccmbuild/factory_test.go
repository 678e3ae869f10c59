package ccmbuild

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unregistered is a package with a constructor of its own type, which nothing registers.
const unregistered = `package bare

import "io"

type Cloud struct{}

func (*Cloud) ProviderName() string { return "bare" }

func New(io.Reader) (*Cloud, error) { return &Cloud{}, nil }
`

// A package that registers nothing is built with its factory: the daemon, and the tool.
func TestFactory(t *testing.T) {
	isolate(t, nil)
	s := newStand(t)
	write(t, s.path("mycloud/bare/bare.go"), unregistered)
	for _, tool := range []bool{false, true} {
		o := s.options("./mycloud/bare")
		o.Request.Tool, o.Request.Factories = tool, []Factory{{Name: "bare", Func: "New"}}
		if got := s.build(o).Providers; !slices.Equal(got, []string{"bare"}) {
			t.Errorf("providers %v", got)
		}
		if got := says(t, s.path("out/program"), "bare"); !strings.HasSuffix(got, "bare true") {
			t.Errorf("the program says %q", got)
		}
	}
	o := s.options("./mycloud/bare", "./mycloud/sub")
	o.Request.Factories = []Factory{{Name: "bare", Path: "example.com/mycloud/bare", Func: "New"}}
	if got := s.build(o).Providers; !slices.Equal(got, []string{"bare", "mycloud"}) {
		t.Errorf("beside one that registers itself: providers %v", got)
	}
}

func TestParseFactory(t *testing.T) {
	for text, want := range map[string]Factory{
		"bare=New":                         {Name: "bare", Func: "New"},
		"bare=example.com/a.b/c.NewCloud":  {Name: "bare", Path: "example.com/a.b/c", Func: "NewCloud"},
		"bare=gopkg.in/bare.v1.NewCloudV2": {Name: "bare", Path: "gopkg.in/bare.v1", Func: "NewCloudV2"},
	} {
		if got, err := ParseFactory(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "bare", "=New", "bare=", "bare=new", "bare=bare.New", "bare=example.com/a", "bare=a/b.New", "bare=N;ew"} {
		if got, err := ParseFactory(text); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

func TestFactoriesThatContradict(t *testing.T) {
	imports := []string{"example.com/a", "example.com/b"}
	_, err := planFactories([]Factory{
		{Name: "a", Func: "New"}, {Name: "b", Path: "example.com/c", Func: "New"}, {Name: "b", Path: "example.com/b", Func: "New"},
	}, imports)
	for _, want := range []string{"which of the 2 packages", "example.com/c is not one", "provider b has two factories"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// What a package's init finds of the environment it may also print or send: it finds nothing.
func TestProbeHasNoCredentials(t *testing.T) {
	isolate(t, nil)
	t.Setenv("MYCLOUD_TOKEN", "secret")
	s := newStand(t)
	write(t, s.path("mycloud/sub/greedy.go"), `package sub

import "os"

func init() {
	if os.Getenv("MYCLOUD_TOKEN") != "" || os.Getenv("GOPROXY") != "" {
		panic("the generator sees the environment of the user")
	}
}
`)
	s.build(s.options("./mycloud/sub"))
}

// The sources that are written build with the go tool as they are, wherever they are kept.
func TestWriteMain(t *testing.T) {
	isolate(t, nil)
	s := newStand(t)
	write(t, s.path("mycloud/bare/bare.go"), unregistered)
	o := s.options("./mycloud/bare")
	o.Output, o.Sources = "", "kept/ccm"
	o.Request.Factories = []Factory{{Name: "bare", Func: "New"}}
	if result := s.build(o); result.Sources != "kept/ccm" || result.Program != "" {
		t.Errorf("result %+v", result)
	}
	command := exec.CommandContext(t.Context(), "go", "build", "-o", "program", ".")
	command.Dir, command.Env = s.path("kept/ccm"), append(os.Environ(), "GOFLAGS=-mod=readonly")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if got := says(t, s.path("kept/ccm/program"), "bare"); got != "daemon bare true" {
		t.Errorf("the program says %q", got)
	}
	mod, err := os.ReadFile(filepath.Join(s.dir, "kept/ccm/go.mod"))
	if err != nil || !strings.Contains(string(mod), "example.com/mycloud => ../../mycloud") {
		t.Errorf("go.mod does not name the directory as it is from there: %v\n%s", err, mod)
	}
	fails[*OutputError](s, o, "is not empty, and what is in it may have been edited")
}

// A package may be named with the directory that its module is in, as its module may.
func TestWithReplacement(t *testing.T) {
	isolate(t, nil)
	s := newStand(t)
	asked, replacement, err := ParseWith("example.com/mycloud/sub=./mycloud")
	if err != nil || replacement == nil {
		t.Fatalf("%+v %v", replacement, err)
	}
	o := s.options()
	o.Request.Packages = []Package{asked}
	o.Request.Replacements = append(o.Request.Replacements, *replacement)
	if got := s.build(o).Providers; !slices.Equal(got, []string{"mycloud"}) {
		t.Errorf("providers %v", got)
	}
}
