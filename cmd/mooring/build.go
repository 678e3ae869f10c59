package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/ccmbuild"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
	"github.com/mooring-ccm/mooring/internal/tool/image"
)

// buildFlags are the flags of build.
type buildFlags struct {
	with, replace, replacesOf              []string
	labels, factories                      []string
	output, platforms, mooring             string
	lock, sources                          string
	image, reference, certificates, create string
	push, tool, cgo                        bool
}

func newBuild() *cobra.Command {
	f := &buildFlags{create: os.Getenv("SOURCE_DATE_EPOCH")}
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build a cloud controller manager with any provider",
		Long: `build writes the program that a vendor would write, with the packages of providers that --with names. The go tool builds it, and it
runs once to show which providers the packages register. It needs Go, and no checkout of anything.

Mooring itself is the release that this program is; inside a checkout of Mooring it is that checkout. --mooring-version and
--replace github.com/mooring-ccm/mooring=DIRECTORY choose another.

--image writes an OCI image as a tarball, without a container engine: the program, root certificates, the user 65532, and a
list of all modules in SPDX JSON, which is also written beside it. Without --with, the image has the daemon that
Mooring ships. The same inputs give the same bytes; the time in the image is SOURCE_DATE_EPOCH, or the beginning of 1970.

A package that does not register its provider needs a --factory, if a function of it takes the cloud config alone. For one that takes
more, --write-main writes the program for you to edit: ccm.WithProvider passes on what it takes.

Building runs the init functions of the packages on this machine, without the variables of your environment. They can read your files:
build packages that you do not trust in a container. The first build compiles Kubernetes' libraries, which takes minutes.

` + cli.ExitCodes,
		Example: `  mooring build --with k8s.io/cloud-provider-aws/pkg/providers/v1@v1.37.0
  mooring build --with ./mycloud -o mycloud-ccm
  mooring build --with example.com/mycloud@v1.2.0 --image mycloud-ccm.tar --platform linux/amd64,linux/arm64
  mooring build --with example.com/mycloud --replace k8s.io/api=k8s.io/api@v0.37.2 --tool -o mooring-mycloud`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.with, "with", nil,
		"`PACKAGE[@VERSION][=REPLACEMENT]` that registers a provider, or ./DIRECTORY with one; may be repeated")
	flags.StringArrayVar(&f.factories, "factory", nil,
		"`PROVIDER=[IMPORTPATH.]FUNCTION` that builds a provider from its cloud config, of a package that does not register it; may be repeated")
	flags.StringArrayVar(&f.replace, "replace", nil,
		"`MODULE=DIRECTORY` or MODULE=MODULE[@VERSION] to build with instead; may be repeated")
	flags.StringArrayVar(&f.replacesOf, "replaces-of", nil,
		"`MODULE[@VERSION]` whose own replace directives count, too, which Go ignores otherwise; may be repeated")
	flags.StringVarP(&f.output, "output", "o", "",
		"`file` to write the program to (default cloud-controller-manager, or none with --image)")
	flags.StringVar(&f.sources, "write-main", "",
		"`directory` to write the program's module to, to be edited, kept and built with the go tool; builds nothing")
	flags.StringVar(&f.lock, "lock", "",
		"`file` with the modules to build from, their versions and sums; written if it is not there, otherwise nothing else is built from")
	flags.StringVar(&f.platforms, "platform", "", "`OS/ARCH,...` to build for; several with --image only (default this machine's)")
	_ = cmd.RegisterFlagCompletionFunc("platform", cobra.FixedCompletions([]string{"linux/amd64", "linux/arm64"}, cobra.ShellCompDirectiveNoFileComp))
	flags.StringVar(&f.mooring, "mooring-version", "", "`version` of Mooring to build with")
	flags.BoolVar(&f.tool, "tool", false, "build the tool that tries the providers instead of the daemon (default file mooring-tool)")
	flags.BoolVar(&f.cgo, "cgo", false, "link with C libraries, for a provider that needs them; not for an image")
	flags.StringVar(&f.image, "image", "", "`file` to write an OCI image to, as a tarball")
	flags.BoolVar(&f.push, "push", false, "send the image to the registry that --image-name names")
	flags.StringVar(&f.reference, "image-name", "", "`name` and tag of the image, for engines that load it")
	flags.StringArrayVar(&f.labels, "label", nil, "`KEY=VALUE` to label the image with; may be repeated")
	flags.StringVar(&f.certificates, "ca-certificates", "", "PEM `file` of root certificates for the image (default this machine's)")
	return cmd
}

func (f *buildFlags) run(cmd *cobra.Command) error {
	options, err := f.options()
	if err != nil {
		return cli.Usage(cmd, err)
	}
	if options.Dir, err = os.Getwd(); err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	options.Progress = cmd.ErrOrStderr()
	result, err := ccmbuild.Build(cmd.Context(), options)
	if err != nil && cmd.Context().Err() != nil {
		return cli.Interrupted(fmt.Errorf("interrupted: %w", err))
	}
	if err != nil {
		return err
	}
	if err := report(cmd.OutOrStdout(), result); err != nil || !f.push {
		return err
	}
	return f.send(cmd, result)
}

// send pushes the image that was written, and says by which name it can be pulled.
func (f *buildFlags) send(cmd *cobra.Command, result ccmbuild.Result) (err error) {
	scratch, err := os.MkdirTemp("", "mooring-push-")
	if err != nil {
		return fmt.Errorf("directory for the push: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	digest, err := image.Push(cmd.Context(), result.Image, scratch, f.reference)
	if err != nil && cmd.Context().Err() != nil {
		return cli.Interrupted(fmt.Errorf("interrupted: %w", err))
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), "pushed      "+f.reference[:strings.LastIndex(f.reference, ":")]+"@"+digest.String())
	return err
}

// options returns what the flags say, or everything that is wrong with them.
func (f *buildFlags) options() (ccmbuild.Options, error) {
	options := ccmbuild.Options{
		Request: ccmbuild.Request{
			MooringVersion: f.mooring, ReplacesOf: f.replacesOf, Tool: f.tool, CGO: f.cgo, Shipped: len(f.with) == 0 && f.image != "",
		},
		Output: f.output, Lock: f.lock, Sources: f.sources,
		Image: ccmbuild.ImageOptions{File: f.image, Certificates: f.certificates, Reference: f.reference},
	}
	wrong := f.combinations()
	for _, text := range f.with {
		parsed, replacement, err := ccmbuild.ParseWith(text)
		wrong = append(wrong, flagError("--with", err))
		options.Request.Packages = append(options.Request.Packages, parsed)
		if replacement != nil {
			options.Request.Replacements = append(options.Request.Replacements, *replacement)
		}
	}
	for _, text := range f.factories {
		parsed, err := ccmbuild.ParseFactory(text)
		wrong = append(wrong, flagError("--factory", err))
		options.Request.Factories = append(options.Request.Factories, parsed)
	}
	for _, text := range f.replace {
		parsed, err := ccmbuild.ParseReplacement(text)
		wrong = append(wrong, flagError("--replace", err))
		options.Request.Replacements = append(options.Request.Replacements, parsed)
	}
	platforms, err := f.parsePlatforms()
	options.Request.Platforms = platforms
	wrong = append(wrong, flagError("--platform", err))
	options.Image.Created, err = epoch(f.create)
	wrong = append(wrong, flagError("SOURCE_DATE_EPOCH", err))
	options.Image.Labels, err = parseLabels(f.labels)
	wrong = append(wrong, flagError("--label", err))
	if options.Output == "" && f.image == "" && f.sources == "" {
		options.Output = options.Request.Program()
	}
	return options, errors.Join(wrong...)
}

func flagError(flag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", flag, err)
}

// combinations returns what is wrong with flags that do not go together.
func (f *buildFlags) combinations() []error {
	var wrong []error
	if len(f.with) == 0 && (f.image == "" || f.tool) {
		wrong = append(wrong, errors.New("--with: required; name a package that registers a provider"))
	}
	if f.image == "" && (f.reference != "" || f.certificates != "" || len(f.labels) > 0) {
		wrong = append(wrong, errors.New("--image-name, --label, --ca-certificates: they go with --image"))
	}
	if f.push && f.image == "" {
		wrong = append(wrong, errors.New("--push: it goes with --image and --image-name"))
	} else if f.push {
		wrong = append(wrong, flagError("--push: --image-name must be REGISTRY/NAME:TAG", image.CheckReference(f.reference)))
	}
	if f.cgo && f.image != "" {
		wrong = append(wrong, errors.New("--cgo: an image has no C library; build a program (-o) and put it into one that has"))
	}
	if f.sources != "" && (f.image != "" || f.output != "" || f.lock != "" || f.platforms != "") {
		wrong = append(wrong, errors.New("--write-main: it writes sources and builds nothing; build those with go build, without -o, --image, --lock and --platform"))
	}
	if len(f.with) == 0 && len(f.factories) > 0 {
		wrong = append(wrong, errors.New("--factory: its package has to be one that --with names"))
	}
	if f.image != "" && f.image == f.output {
		wrong = append(wrong, fmt.Errorf("--output, --image: both are %s", f.image))
	}
	return wrong
}

func (f *buildFlags) parsePlatforms() ([]ccmbuild.Platform, error) {
	if f.platforms == "" {
		if f.image == "" {
			return nil, nil
		}
		return []ccmbuild.Platform{{OS: "linux", Arch: runtime.GOARCH}}, nil
	}
	platforms, err := ccmbuild.ParsePlatforms(f.platforms)
	if err != nil {
		return nil, err
	}
	if len(platforms) > 1 && (f.image == "" || f.output != "") {
		return nil, errors.New("several platforms go into an image (--image), a program (-o) is for one")
	}
	for _, platform := range platforms {
		if f.image != "" && platform.OS != "linux" {
			return nil, fmt.Errorf("%s: an image is for linux", platform)
		}
	}
	return platforms, nil
}

// epoch reads the time of a reproducible build (reproducible-builds.org/specs/source-date-epoch).
func epoch(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("%q: must be a number of seconds since 1970", text)
	}
	return time.Unix(seconds, 0), nil
}

func parseLabels(texts []string) (map[string]string, error) {
	labels := map[string]string{}
	for _, text := range texts {
		key, value, found := strings.Cut(text, "=")
		if !found || key == "" {
			return nil, fmt.Errorf("%q: must be KEY=VALUE", text)
		}
		labels[key] = value
	}
	return labels, nil
}

// report says what was built.
func report(out io.Writer, result ccmbuild.Result) error {
	var lines []string
	if result.Sources != "" {
		lines = append(lines, "sources     "+result.Sources)
	}
	if result.Program != "" {
		lines = append(lines, "program     "+result.Program)
	}
	if result.Image != "" {
		lines = append(lines, "image       "+result.Image+"  "+result.Digest, "modules     "+result.SBOM)
	}
	if len(result.Providers) > 0 {
		lines = append(lines, "providers   "+strings.Join(result.Providers, ", "))
	}
	if result.Lock != "" {
		lines = append(lines, "locked in   "+result.Lock)
	}
	lines = append(lines, "built with  Mooring "+result.Mooring+", Kubernetes "+result.Kubernetes+", "+result.Go)
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}
