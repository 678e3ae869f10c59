// Package build builds what Kubernetes' own end-to-end tests need from Kubernetes' Go modules.
package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/mooring-ccm/mooring/dev/filelock"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/internal/tool/gobuild"
	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

// suites are the imports of Kubernetes' entry point that register specs. The chosen ones are in programs/e2e.
var suites = regexp.MustCompile(`(?m)^\t_ "k8s\.io/kubernetes/test/e2e/(apimachinery|apps|architecture|auth|autoscaling|cloud|common|dra|instrumentation|` +
	`kubectl|lifecycle|lifecycle/bootstrap|network|node|scheduling|storage|storage/csimock|storage/external|windows)"\n`)

// Programs builds the programs, shows its progress on lines, and returns the folder that has them: e2e.test, ginkgo, scheduler, coredns, agnhost and
// pause. The folder is kept between runs, because linking takes as long as the rest. It must be called from within a checkout of this project.
func Programs(ctx context.Context, lines io.Writer) (string, error) {
	bin, err := programs(ctx, lines)
	if err != nil {
		return "", fmt.Errorf("build the programs of Kubernetes' own tests: %w", err)
	}
	return bin, nil
}

func programs(ctx context.Context, lines io.Writer) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	bin := filepath.Join(cache, "mooring", "upstream")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	display := progress.New(lines)
	unlock, err := filelock.Take(ctx, filepath.Join(bin, "lock"), display, "another build of Kubernetes' tests")
	if err != nil {
		return "", err
	}
	defer unlock()
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/mooring-ccm/mooring").Output()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	e2e := filepath.Join(strings.TrimSpace(string(root)), "dev", "e2e")
	minor := strings.Split(localcluster.DefaultVersion, ".")[1]
	module := gobuild.Options{
		Dir: filepath.Join(e2e, "upstream", "programs"), Env: []string{"GOWORK=off", "CGO_ENABLED=0"}, Display: display,
		Flags: gobuild.Shipped(os.Getenv("GOFLAGS"), strings.Join([]string{
			"-X k8s.io/component-base/version.gitVersion=" + localcluster.DefaultVersion, "-X k8s.io/component-base/version.gitMajor=1",
			"-X k8s.io/component-base/version.gitMinor=" + minor,
		}, " ")),
	}
	for _, source := range []string{"./scheduler", "./coredns", "k8s.io/kubernetes/test/images/agnhost", "github.com/onsi/ginkgo/v2/ginkgo"} {
		program := module
		program.Package, program.Output = source, filepath.Join(bin, path.Base(source))
		if err := gobuild.Build(ctx, program); err != nil {
			return "", err
		}
	}
	pause := gobuild.Options{Dir: filepath.Join(e2e, "kubelet", "testdata", "pause"), Package: ".", Name: "pause", Output: filepath.Join(bin, "pause"), Display: display}
	return bin, errors.Join(gobuild.Build(ctx, pause), tests(ctx, bin, module))
}

// tests builds e2e.test. Its entry point is laid over programs/e2e from Kubernetes' module, with fewer suites.
func tests(ctx context.Context, bin string, module gobuild.Options) error {
	nothing := func(string) bool { return false }
	from, err := gobuild.Run(ctx, module, []string{"list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes"}, nothing)
	if err != nil {
		return fmt.Errorf("find Kubernetes' module: %w", err)
	}
	from = filepath.Join(strings.TrimSpace(from), "test", "e2e")
	to := filepath.Join(module.Dir, "e2e")
	entry, err := os.ReadFile(filepath.Join(from, "e2e_test.go"))
	if err != nil {
		return fmt.Errorf("read the entry point of Kubernetes' tests: %w", err)
	}
	trimmed := suites.ReplaceAll(entry, nil)
	if len(trimmed) == len(entry) {
		return errors.New("no suite that is known here is imported by Kubernetes' e2e_test.go")
	}
	main, overlay := filepath.Join(bin, "e2e_test.go"), filepath.Join(bin, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(to, "e2e.go"): filepath.Join(from, "e2e.go"), filepath.Join(to, "suites.go"): filepath.Join(from, "suites.go"),
		filepath.Join(to, "e2e_test.go"): main,
	}})
	err = errors.Join(err, os.WriteFile(main, trimmed, 0o600), os.WriteFile(overlay, text, 0o600))
	if err != nil {
		return fmt.Errorf("lay the entry point of Kubernetes' tests over programs/e2e: %w", err)
	}
	step := module.Display.Begin("building e2e.test of Kubernetes " + localcluster.DefaultVersion)
	arguments := append([]string{"test", "-c", "-trimpath", "-vet=off", "-overlay=" + overlay, "-o", filepath.Join(bin, "e2e.test")}, module.Flags...)
	if _, err := gobuild.Run(ctx, module, append(arguments, "./e2e"), nothing); err != nil {
		step.Fail()
		return err
	}
	step.Done("built")
	return nil
}
