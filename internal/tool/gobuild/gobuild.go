// Package gobuild runs the go tool on packages and says how far it is: which modules it downloads, how many of the
// packages that are not yet in the build cache it has compiled.
package gobuild

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/mooring-ccm/mooring/internal/tool/progress"
	"github.com/mooring-ccm/mooring/internal/version/stamp"
)

// Options say what to build and how. Dir and Package are required, and for Build also Output.
type Options struct {
	// Dir is the directory of the module that holds the package.
	Dir string
	// Package is the main package to build, for example "./cmd/mooring". For Fill it may be a pattern.
	Package string
	// Name is what progress and errors call what is built. Empty means Package.
	Name string
	// Output is the file to write. It is written when the build succeeds, never in part by a failed one.
	Output string
	// Flags are further flags of go build, for example "-trimpath". They apply to the listing of packages too, so
	// both agree on what the cache holds.
	Flags []string
	// Env are further environment variables as "NAME=value". They win over the environment of this process.
	Env []string
	// Display shows the progress. Nil shows none.
	Display *progress.Display
}

// Build compiles and links the package, as programs are shipped: without C and without paths of this machine, unless Flags ask for
// the race detector. The options' own Flags and Env win. All programs share what the go tool has cached that way. Its error says
// what is missing when the go tool's output shows that: the go tool itself, the network, room on the disk.
func Build(ctx context.Context, options Options) error {
	return run(ctx, options, []string{"build", "-v", "-o", options.Output}, "linking")
}

// Shipped returns the flags that Build needs besides its own for a program as it is shipped. The linker leaves out what only debuggers
// read, and gets further arguments, such as those of stamp.LinkerFlags. GRPC is built without traces for golang.org/x/net/trace, which no
// program here shows: their template calls methods by name, for which the linker keeps every exported method of every library. Tags in
// goflags, the value of GOFLAGS, are kept: those of a command line would replace them.
func Shipped(goflags, linker string) []string {
	tags := []string{"grpcnotrace"}
	for flag := range strings.FieldsSeq(goflags) {
		given, found := strings.CutPrefix(strings.TrimLeft(flag, "-"), "tags=")
		if !found {
			continue
		}
		for tag := range strings.SplitSeq(given, ",") {
			if !slices.Contains(tags, tag) {
				tags = append(tags, tag)
			}
		}
	}
	return []string{"-tags=" + strings.Join(tags, ","), "-ldflags=" + strings.TrimSpace("-s -w "+linker)}
}

// Fill compiles the packages that match, and what their tests need, into the build cache. It links nothing: that takes as long as all
// the rest where most is compiled already, and what is linked is not kept. Output is not used.
func Fill(ctx context.Context, options Options) error {
	options.Flags = append([]string{"-test"}, options.Flags...)
	return run(ctx, options, []string{"list", "-export", "-v"}, "compiling the last ones")
}

// run lists what is stale and has the go tool make it; atLast is what it does after the last package.
func run(ctx context.Context, options Options, makeIt []string, atLast string) error {
	options.Flags = append([]string{"-trimpath"}, options.Flags...)
	if !slices.Contains(options.Flags, "-race") {
		options.Env = append([]string{"CGO_ENABLED=0"}, options.Env...)
	}
	if options.Display == nil {
		options.Display = progress.New(nil)
	}
	options.Name = cmp.Or(options.Name, options.Package)
	if _, err := exec.LookPath("go"); err != nil {
		return fmt.Errorf("build %s: the go tool is not in PATH; install Go from https://go.dev/dl: %w", options.Name, err)
	}
	stale, err := listStale(ctx, options)
	if err != nil {
		return fmt.Errorf("build %s: list its packages: %w", options.Name, err)
	}
	if err := compile(ctx, options, makeIt, stale, atLast); err != nil {
		return fmt.Errorf("build %s: %w", options.Name, err)
	}
	return nil
}

// listStale returns the import paths that the build has to compile. Listing them downloads the modules that are needed
// and no others.
func listStale(ctx context.Context, options Options) (map[string]bool, error) {
	step := options.Display.Begin("resolving modules of " + options.Name)
	args := append([]string{"list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"}, options.Flags...)
	downloads := 0
	output, err := Run(ctx, options, append(args, options.Package), func(line string) bool {
		module, isDownload := strings.CutPrefix(line, "go: downloading ")
		if isDownload {
			downloads++
			step.Update("%d downloaded, now %s", downloads, module)
		}
		return isDownload
	})
	if err != nil {
		step.Fail()
		return nil, err
	}
	stale := map[string]bool{}
	for path := range strings.Lines(output) {
		if path = strings.TrimSpace(path); path != "" {
			stale[path] = true
		}
	}
	step.Done("%d downloaded, %d packages to compile", downloads, len(stale))
	return stale, nil
}

// compile runs the go tool and counts the packages that it names.
func compile(ctx context.Context, options Options, makeIt []string, stale map[string]bool, atLast string) error {
	step := options.Display.Begin("building " + options.Name)
	compiled := 0
	if len(stale) <= 1 {
		step.Update("%s", atLast)
	}
	_, err := Run(ctx, options, slices.Concat(makeIt, options.Flags, []string{options.Package}), func(line string) bool {
		if !stale[line] {
			return false
		}
		compiled++
		if compiled < len(stale) {
			step.Update("%d of %d packages, now %s", compiled, len(stale), line)
		} else {
			step.Update("%d packages compiled, %s", compiled, atLast)
		}
		return true
	})
	if err != nil {
		step.Fail()
		return err
	}
	step.Done("built")
	return nil
}

// Run runs the go tool with other arguments than those of a build, in options.Dir and with options.Env, and returns its
// standard output. Each line of its standard error goes to consume; the lines that consume does not take become part of the
// error, which holds a *CommandError when the go tool ran and failed. When ctx ends, so do the processes that it started.
func Run(ctx context.Context, options Options, args []string, consume func(line string) bool) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = options.Dir
	cmd.Env = append(os.Environ(), options.Env...)
	// A group of its own, so canceling ends the compilers that the go tool started as well.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	reader, writer := io.Pipe()
	cmd.Stderr = writer

	messages := make(chan []string, 1)
	go func() { messages <- collect(reader, consume) }()
	err := cmd.Run()
	writer.Close()
	rest := <-messages
	if ctx.Err() != nil {
		return "", fmt.Errorf("go %s: %w", args[0], context.Cause(ctx))
	}
	if err != nil {
		return "", explain(args[0], err, rest)
	}
	return stdout.String(), nil
}

// Bounds of what an error holds of the go tool's output, and of what it quotes from the end of that, in lines.
const (
	maxMessages = 1000
	maxQuoted   = 30
)

func collect(reader io.Reader, consume func(line string) bool) []string {
	var rest []string
	scanner := bufio.NewScanner(reader)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		if line := scanner.Text(); !consume(line) && len(rest) < maxMessages {
			rest = append(rest, line)
		}
	}
	// A line beyond the scanner's buffer must not leave the go tool blocked on a full pipe.
	_, _ = io.Copy(io.Discard, reader)
	return rest
}

// CommandError says that the go tool ran and failed.
type CommandError struct {
	// Verb is its command, for example "build".
	Verb string
	// Messages are the lines of its standard error that are no progress, from the first.
	Messages []string
	// Err is how it ended.
	Err error
}

// Error quotes the last lines.
func (e *CommandError) Error() string {
	return fmt.Sprintf("go %s: %v\n%s", e.Verb, e.Err, strings.Join(e.Messages[max(0, len(e.Messages)-maxQuoted):], "\n"))
}

// Unwrap returns how the go tool ended.
func (e *CommandError) Unwrap() error { return e.Err }

// NetworkError says that the go tool could not download a module.
type NetworkError struct {
	// Err is what the go tool wrote.
	Err error
}

// Error says what to do about it.
func (e *NetworkError) Error() string {
	return "the module proxy cannot be reached (the first build downloads modules; see go env GOPROXY): " + e.Err.Error()
}

// Unwrap returns the go tool's own words.
func (e *NetworkError) Unwrap() error { return e.Err }

// DiskError says that a file system is full.
type DiskError struct {
	// Err is what the go tool wrote.
	Err error
}

// Error says what to do about it.
func (e *DiskError) Error() string {
	return "no space left on the disk of the build cache (go env GOCACHE), the module cache (go env GOMODCACHE) or the " +
		"temporary directory; the first build of the control plane needs about 5 GB: " + e.Err.Error()
}

// Unwrap returns the go tool's own words.
func (e *DiskError) Unwrap() error { return e.Err }

// explain turns a failed run of the go tool into an error of the kind that its output shows.
func explain(verb string, err error, messages []string) error {
	text := strings.Join(messages, "\n")
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return fmt.Errorf("run go %s: %w", verb, err)
	}
	failure := &CommandError{Verb: verb, Messages: messages, Err: err}
	switch {
	case containsAny(text, "no space left on device", "disk quota exceeded"):
		return &DiskError{Err: failure}
	case containsAny(text, "dial tcp", "no such host", "i/o timeout", "proxyconnect", "TLS handshake timeout",
		"connection reset by peer", "module lookup disabled by GOPROXY=off", "server misbehaving"):
		return &NetworkError{Err: failure}
	}
	return failure
}

func containsAny(text string, parts ...string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// Stamp returns the arguments of the linker that tell a program the version of the checkout that it is built from, for Shipped: Go itself
// records none with -buildvcs=false. Outside of a checkout of Mooring there are none.
func Stamp(ctx context.Context, dir string) string {
	revision, found := stamp.RevisionOf(ctx, dir)
	if !found {
		return ""
	}
	ignore := func(string) bool { return true }
	kubernetes, err := Run(ctx, Options{Dir: dir}, []string{"list", "-m", "-f", "{{.Version}}", "k8s.io/component-base"}, ignore)
	if err != nil {
		kubernetes = "" // a module without libraries of Kubernetes
	}
	return revision.Stamp(stamp.Kubernetes(kubernetes)).LinkerFlags()
}
