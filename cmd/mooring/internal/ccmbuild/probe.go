package ccmbuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mooring-ccm/mooring/internal/tool/gobuild"
)

// probeTimeout is how long a program may take that only initializes its packages. Some read files or ask the machine what it is.
const probeTimeout = time.Minute

// registration is a provider that a package registers.
type registration struct {
	// name is the provider's, as in --cloud-provider.
	name string
	// pkg is the package of the function that builds it.
	pkg string
}

// probe builds and runs a program that says which providers the packages register, and returns their names. It is built for this
// machine, whatever else is. It runs the code of the packages' init functions, as the program that is asked for does.
func (b *builder) probe(ctx context.Context, request Request, w Workspace, picked Picked) ([]string, error) {
	file := filepath.Join(b.scratch, "providers")
	compile := planCompile(request, Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}, "", os.Getenv("GOFLAGS"))
	err := gobuild.Build(ctx, gobuild.Options{
		Dir: b.workspace, Package: "./" + probeDir, Name: "a program that lists the providers", Output: file,
		Flags: compile.Flags, Env: slices.Concat(b.env, compile.Env), Display: b.display,
	})
	if err != nil {
		return nil, explain(err, w, picked)
	}
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	command := exec.CommandContext(limited, file)
	command.Dir, command.WaitDelay, command.Env = b.elsewhere, time.Second, scrubbed(b.elsewhere)
	var stdout, stderr strings.Builder
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); ctx.Err() != nil {
		return nil, fmt.Errorf("asking for the providers: %w", context.Cause(ctx))
	} else if err != nil {
		return nil, &ProbeError{Output: strings.TrimSpace(stderr.String() + stdout.String()), Err: err}
	}
	found, err := readRegistrations(stdout.String())
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(found, func(r registration) bool { return r.name == probeName }) {
		b.note("warning: this version of k8s.io/cloud-provider does not show which providers are registered; not checked")
		return nil, nil
	}
	found = slices.DeleteFunc(found, func(r registration) bool { return r.name == probeName })
	return b.attribute(ctx, w, found)
}

// scrubbed is the environment of a program of others that only has to say what it holds: no credentials, no kubeconfig, no settings of a
// proxy, and an empty home.
func scrubbed(home string) []string {
	env := []string{"HOME=" + home, "TMPDIR=" + home}
	if root := os.Getenv("SYSTEMROOT"); root != "" { // without it no program of Windows starts
		env = append(env, "SYSTEMROOT="+root)
	}
	return env
}

// attribute returns the names of the providers, or an error with the packages that register none: such a package neither holds nor imports
// the function of a registered provider.
func (b *builder) attribute(ctx context.Context, w Workspace, found []registration) ([]string, error) {
	var names, without []string
	for _, r := range found {
		names = append(names, r.name)
	}
	slices.Sort(names)
	for _, imported := range w.Imports {
		if slices.ContainsFunc(w.Factories, func(f Factory) bool { return f.Path == imported }) {
			continue // the program registers it
		}
		if len(found) == 0 {
			without = append(without, imported)
			continue
		}
		output, err := b.goTool(ctx, b.workspace, "", "list", "-deps", imported)
		if err != nil {
			return nil, explain(err, w, Picked{})
		}
		packages := strings.Fields(output)
		if !slices.ContainsFunc(found, func(r registration) bool { return slices.Contains(packages, r.pkg) }) {
			without = append(without, imported)
		}
	}
	if len(without) > 0 {
		return nil, &NoProviderError{Packages: without, Registered: names}
	}
	return names, nil
}

// readRegistrations reads what the probe wrote.
func readRegistrations(output string) ([]registration, error) {
	var found []registration
	for line := range strings.Lines(output) {
		var name, function string
		if _, err := fmt.Sscanf(line, "%q %s", &name, &function); err != nil {
			// An init function may write to standard output, too.
			continue
		}
		found = append(found, registration{name: name, pkg: packageOf(function)})
	}
	if len(found) == 0 {
		return nil, &ProbeError{Output: strings.TrimSpace(output), Err: errors.New("it ended before it was asked")}
	}
	return found, nil
}

// packageOf returns the package of a function as the runtime names it: its path up to the first dot behind the last slash. A dot
// of the path itself is written %2e there.
func packageOf(function string) string {
	dir, rest := "", function
	if slash := strings.LastIndex(function, "/"); slash >= 0 {
		dir, rest = function[:slash+1], function[slash+1:]
	}
	rest, _, _ = strings.Cut(rest, ".")
	return dir + strings.ReplaceAll(rest, "%2e", ".")
}
