package ccmbuild

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Module is the path of the module that every program is built with.
const Module = "github.com/mooring-ccm/mooring"

// Package is a package to link, as the user requests it: by its import path, or by a directory.
type Package struct {
	// Path is the import path. It may be below its module's root, and is empty for a directory.
	Path string
	// Version is what follows the @: a version, a branch, a commit. Empty means the newest release.
	Version string
	// Dir is a directory of this machine.
	Dir string
}

// Replacement puts a directory or another module in the place of a module.
type Replacement struct {
	// Module is the path of the module that is replaced, and Version the only version of it that is, or empty for all.
	Module, Version string
	// Dir is the directory that replaces it. Without one, NewModule at NewVersion does, where an empty version is the newest.
	Dir, NewModule, NewVersion string
}

// String returns the replacement as ParseReplacement reads it.
func (r Replacement) String() string {
	target := r.Dir
	if target == "" {
		target = strings.TrimSuffix(r.NewModule+"@"+r.NewVersion, "@")
	}
	return strings.TrimSuffix(r.Module+"@"+r.Version, "@") + "=" + target
}

// Platform is what a program runs on, as the go tool names it.
type Platform struct {
	OS, Arch string
	// Variant is the version of arm, for example "v7"; empty for every other architecture.
	Variant string
}

// String returns the platform as OS/ARCH or OS/ARCH/VARIANT.
func (p Platform) String() string { return strings.TrimSuffix(p.OS+"/"+p.Arch+"/"+p.Variant, "/") }

// Request is what is to be built, as it was asked for.
type Request struct {
	Packages     []Package
	Replacements []Replacement
	// ReplacesOf are modules, as MODULE or MODULE@VERSION, whose own replace directives count, too. Those of Replacements win.
	ReplacesOf []string
	// Factories build the providers of packages that do not register them.
	Factories []Factory
	// MooringVersion is the version of Mooring to build with. Empty leaves the choice to what Observe sees.
	MooringVersion string
	// Tool builds the tool with which these providers are tried, instead of the daemon.
	Tool bool
	// Shipped builds the daemon that Mooring ships, with its own providers. Then there are no packages.
	Shipped bool
	// Platforms are what to build for. Empty means this machine's.
	Platforms []Platform
	// CGO links with C libraries. The result is then not the same on every machine, and not static.
	CGO bool
}

// Program is the name of the program that is built.
func (r Request) Program() string {
	if r.Tool {
		return "mooring-tool"
	}
	return "cloud-controller-manager"
}

// isDirectory reports whether a text names a directory, by the go tool's own rule.
func isDirectory(text string) bool {
	return text == "." || text == ".." ||
		strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../") || strings.HasPrefix(text, "/")
}

// ParsePackage reads PACKAGE[@VERSION], where PACKAGE is an import path, or a directory that begins with a dot or a slash.
func ParsePackage(text string) (Package, error) {
	if isDirectory(text) {
		return Package{Dir: text}, nil
	}
	path, version, hasVersion := strings.Cut(text, "@")
	if err := checkPath(path); err != nil {
		return Package{}, fmt.Errorf("%q: %w", text, err)
	}
	if hasVersion {
		if err := checkVersion(version); err != nil {
			return Package{}, fmt.Errorf("%q: %w", text, err)
		}
	}
	return Package{Path: path, Version: version}, nil
}

// ParseWith reads what --with takes: PACKAGE[@VERSION] as ParsePackage does, and with =DIRECTORY or =MODULE[@VERSION] behind it a
// replacement of the package's module, too.
func ParseWith(text string) (Package, *Replacement, error) {
	if isDirectory(text) || !strings.Contains(text, "=") {
		asked, err := ParsePackage(text)
		return asked, nil, err
	}
	replacement, err := ParseReplacement(text)
	if err != nil {
		return Package{}, nil, err
	}
	asked := Package{Path: replacement.Module, Version: replacement.Version}
	replacement.Version = ""
	return asked, &replacement, nil
}

// ParseReplacement reads MODULE[@VERSION]=DIRECTORY or MODULE[@VERSION]=MODULE[@VERSION].
func ParseReplacement(text string) (Replacement, error) {
	old, by, found := strings.Cut(text, "=")
	if !found || by == "" {
		return Replacement{}, fmt.Errorf("%q: must be MODULE=DIRECTORY or MODULE=MODULE@VERSION", text)
	}
	replaced, err := ParsePackage(old)
	if err == nil && replaced.Dir != "" {
		err = fmt.Errorf("%q: a module is replaced, not a directory", text)
	}
	if err != nil {
		return Replacement{}, err
	}
	replacing, err := ParsePackage(by)
	if err != nil {
		return Replacement{}, err
	}
	return Replacement{
		Module: replaced.Path, Version: replaced.Version,
		Dir: replacing.Dir, NewModule: replacing.Path, NewVersion: replacing.Version,
	}, nil
}

// ParsePlatforms reads OS/ARCH[/VARIANT] separated by commas.
func ParsePlatforms(text string) ([]Platform, error) {
	var platforms []Platform
	for _, one := range strings.Split(text, ",") {
		parts := strings.Split(one, "/")
		if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
			return nil, fmt.Errorf("%q: must be OS/ARCH, for example linux/arm64", one)
		}
		platform := Platform{OS: parts[0], Arch: parts[1]}
		if len(parts) == 3 {
			platform.Variant = parts[2]
		}
		if platform.Variant != "" && (platform.Arch != "arm" || !slices.Contains([]string{"v5", "v6", "v7"}, platform.Variant)) {
			return nil, fmt.Errorf("%q: only arm has variants, and they are v5, v6 and v7", one)
		}
		if slices.Contains(platforms, platform) {
			return nil, fmt.Errorf("%q: given twice", one)
		}
		platforms = append(platforms, platform)
	}
	return platforms, nil
}

// checkPath refuses what cannot be an import path outside the standard library, before the go tool or a shell-like pattern can
// make something else of it.
func checkPath(path string) error {
	first, _, _ := strings.Cut(path, "/")
	switch {
	case path == "":
		return errors.New("no import path")
	case strings.HasPrefix(path, "-"):
		return errors.New("an import path begins with no dash")
	case strings.Contains(path, "..."):
		return errors.New("one package, not a pattern")
	case strings.ContainsFunc(path, notInPath):
		return errors.New("an import path holds letters, digits and -._~/ only")
	case !strings.Contains(first, "."):
		return errors.New("an import path begins with a host, for example example.com/mycloud; a directory with ./ or /")
	}
	return nil
}

func checkVersion(version string) error {
	if version == "" {
		return errors.New("no version after the @")
	}
	if strings.ContainsFunc(version, func(r rune) bool { return notInPath(r) && r != '+' }) {
		return errors.New("a version holds letters, digits and -._~/+ only")
	}
	return nil
}

func notInPath(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~/", r))
}

// Factory names a function that builds a provider, in a package that does not register it.
type Factory struct {
	// Name is the provider's, as in --cloud-provider.
	Name string
	// Path is the import path of the function's package. Empty means the only package of the request.
	Path string
	// Func is the function's name. Its type is cloudprovider.Factory, but it may return a type of its own.
	Func string
}

// ParseFactory reads NAME=[IMPORTPATH.]FUNCTION.
func ParseFactory(text string) (Factory, error) {
	name, function, found := strings.Cut(text, "=")
	if !found || name == "" || function == "" {
		return Factory{}, fmt.Errorf("%q: must be PROVIDER=FUNCTION or PROVIDER=IMPORTPATH.FUNCTION", text)
	}
	f := Factory{Name: name, Func: function}
	if slash := strings.LastIndex(function, "/"); slash >= 0 {
		dot := strings.LastIndex(function, ".")
		if dot < slash {
			return Factory{}, fmt.Errorf("%q: no function after the import path", text)
		}
		f.Path, f.Func = function[:dot], function[dot+1:]
		if err := checkPath(f.Path); err != nil {
			return Factory{}, fmt.Errorf("%q: %w", text, err)
		}
	}
	if !isExported(f.Func) {
		return Factory{}, fmt.Errorf("%q: %q is not the name of an exported function; a package is named by its import path", text, f.Func)
	}
	return f, nil
}

// isExported reports whether a text is an identifier that other packages can use.
func isExported(name string) bool {
	for i, r := range name {
		if i == 0 && !unicode.IsUpper(r) || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' {
			return false
		}
	}
	return name != ""
}
