package upstream_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/e2e/worker"
	"github.com/mooring-ccm/mooring/dev/filelock"
	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/tool/gobuild"
	"github.com/mooring-ccm/mooring/tool/progress"
)

// suites are the imports of Kubernetes' entry point that register specs. The chosen ones are in programs/e2e.
var suites = regexp.MustCompile(`(?m)^\t_ "k8s\.io/kubernetes/test/e2e/(apimachinery|apps|architecture|auth|autoscaling|cloud|common|dra|instrumentation|` +
	`kubectl|lifecycle|lifecycle/bootstrap|network|node|scheduling|storage|storage/csimock|storage/external|windows)"\n`)

// build builds what runs in the sandbox, and returns the folder that has it. It is kept between runs: linking takes longest.
func build(t *testing.T) string {
	t.Helper()
	cache := must.Value(os.UserCacheDir())(t)
	bin := filepath.Join(cache, "mooring", "upstream")
	must.NoError(t, os.MkdirAll(bin, 0o755))
	display := progress.New(os.Stderr)
	unlock := must.Value(filelock.Take(t.Context(), filepath.Join(bin, "lock"), display, "another build of Kubernetes' tests"))(t)
	defer unlock()
	must.NoError(t, harness.BuildDaemon(t.Context(), filepath.Join(bin, "cloud-controller-manager"), os.Stderr))
	flags := gobuild.Shipped(os.Getenv("GOFLAGS"), strings.Join([]string{
		"-X k8s.io/component-base/version.gitVersion=" + localcluster.DefaultVersion, "-X k8s.io/component-base/version.gitMajor=1",
		"-X k8s.io/component-base/version.gitMinor=" + strings.Split(localcluster.DefaultVersion, ".")[1],
	}, " "))
	for _, source := range []string{"./scheduler", "./coredns", "k8s.io/kubernetes/test/images/agnhost", "github.com/onsi/ginkgo/v2/ginkgo"} {
		must.NoError(t, gobuild.Build(t.Context(), gobuild.Options{
			Dir: "programs", Package: source, Output: filepath.Join(bin, path.Base(source)), Flags: flags, Env: []string{"GOWORK=off"}, Display: display,
		}))
	}
	must.NoError(t, gobuild.Build(t.Context(), gobuild.Options{
		Dir: "../kubelet/testdata/pause", Package: ".", Output: filepath.Join(bin, "pause"), Display: display,
	}))
	buildTests(t, bin, flags)
	worker.Image{
		Reference: worker.PauseImage, Entrypoint: []string{"/pause"}, Files: map[string]string{"pause": filepath.Join(bin, "pause")},
	}.Write(t, filepath.Join(bin, "pause.tar"))
	agnhost(t, bin).Write(t, filepath.Join(bin, "agnhost.tar"))
	return bin
}

// buildTests builds e2e.test. Its entry point is laid over programs/e2e from Kubernetes' module, with fewer suites.
func buildTests(t *testing.T, bin string, flags []string) {
	t.Helper()
	options := gobuild.Options{Dir: "programs", Env: []string{"GOWORK=off", "CGO_ENABLED=0"}}
	nothing := func(string) bool { return false }
	from := strings.TrimSpace(must.Value(gobuild.Run(t.Context(), options, []string{"list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes"}, nothing))(t))
	from = filepath.Join(from, "test", "e2e")
	to := must.Value(filepath.Abs("programs/e2e"))(t)
	entry := string(must.Value(os.ReadFile(filepath.Join(from, "e2e_test.go")))(t))
	trimmed := suites.ReplaceAllString(entry, "")
	if trimmed == entry {
		t.Fatal("Kubernetes' e2e_test.go imports no suite that is known here")
	}
	main, overlay := filepath.Join(bin, "e2e_test.go"), filepath.Join(bin, "overlay.json")
	must.NoError(t, os.WriteFile(main, []byte(trimmed), 0o600))
	text := must.Value(json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(to, "e2e.go"): filepath.Join(from, "e2e.go"), filepath.Join(to, "suites.go"): filepath.Join(from, "suites.go"),
		filepath.Join(to, "e2e_test.go"): main,
	}}))(t)
	must.NoError(t, os.WriteFile(overlay, text, 0o600))
	step := progress.New(os.Stderr).Begin("building e2e.test of Kubernetes " + localcluster.DefaultVersion)
	arguments := append([]string{"test", "-c", "-trimpath", "-vet=off", "-overlay=" + overlay, "-o", filepath.Join(bin, "e2e.test")}, flags...)
	if _, err := gobuild.Run(t.Context(), options, append(arguments, "./e2e"), nothing); err != nil {
		step.Fail()
		t.Fatal(err)
	}
	step.Done("built")
}

// agnhost is the image that Kubernetes' tests run in Pods: a program of Kubernetes, and the tools by which the tests try connections.
func agnhost(t *testing.T, bin string) worker.Image {
	t.Helper()
	listed := must.Value(exec.CommandContext(t.Context(), filepath.Join(bin, "e2e.test"), "--list-images").Output())(t)
	named := regexp.MustCompile(`\S+/e2e-test-images/agnhost:\S+`).FindAllString(string(listed), -1)
	if len(named) == 0 {
		t.Fatalf("e2e.test lists no image of agnhost: %s", listed)
	}
	image := worker.Image{
		// The older ones are for tests of upgrades.
		Reference: slices.Max(named), Entrypoint: []string{"/agnhost"}, Command: []string{"pause"},
		Files: map[string]string{"agnhost": filepath.Join(bin, "agnhost")},
		Links: map[string]string{
			"bin": "usr/bin", "sbin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib", "agnhost-2": "agnhost",
			"usr/bin/sh": "bash", "usr/bin/nc": "nc.openbsd",
		},
		Texts: map[string]string{
			"etc/passwd": "root:x:0:0:root:/:/bin/sh\n", "etc/group": "root:x:0:\n", "etc/nsswitch.conf": "hosts: files dns\n",
			"etc/wgetrc": "tries = 1\n", // as the program of BusyBox does, which the image of Kubernetes has
		},
		Dirs: []string{"tmp", "uploads"},
	}
	for _, tool := range []string{"bash", "cat", "curl", "date", "grep", "hostname", "ls", "nc.openbsd", "rm", "seq", "sleep", "ss", "tail", "timeout", "wget"} {
		found := must.Value(exec.LookPath(tool))(t)
		image.Files["usr/bin/"+tool] = found
		output := must.Value(exec.CommandContext(t.Context(), "ldd", found).Output())(t)
		for _, library := range regexp.MustCompile(`/\S+`).FindAllString(string(output), -1) {
			image.Files["usr/lib/"+path.Base(library)] = library
		}
	}
	return image
}

// images are the files that every node imports.
func images(bin string) []string {
	return []string{filepath.Join(bin, "pause.tar"), filepath.Join(bin, "agnhost.tar")}
}
