package ccmbuild

import (
	"fmt"
	"slices"
	"strings"
)

// NoModuleError says that no module was found that could hold a package.
type NoModuleError struct {
	// Query is what was asked for, as PACKAGE or PACKAGE@VERSION.
	Query string
	// Tried are the paths of the modules that were looked for.
	Tried []string
	// Err is what the go tool wrote.
	Err error
}

// Error says which modules were tried.
func (e *NoModuleError) Error() string {
	return fmt.Sprintf("no module found for %s; tried %s. Check the path and the version (go list -m -versions MODULE lists them); "+
		"for a private module set GOPRIVATE: %v", e.Query, strings.Join(e.Tried, ", "), e.Err)
}

// Unwrap returns what the go tool wrote.
func (e *NoModuleError) Unwrap() error { return e.Err }

// NoPackageError says that a module was found, and that it does not hold the package.
type NoPackageError struct {
	Package, Module, Version string
	// By is the chain of packages that import it, the one that was asked for first; empty if that is not known, or it was asked for itself.
	By []string
	// Err is what the go tool wrote.
	Err error
}

// Error names the module and its version.
func (e *NoPackageError) Error() string {
	by := ""
	if last := len(e.By) - 1; last >= 0 {
		by = ", which " + e.By[last] + " imports"
		if last > 0 {
			by += " (" + strings.Join(e.By, " -> ") + ")"
		}
	}
	return fmt.Sprintf("module %s %s has no package %s%s; another version may have it, or it lies elsewhere in the module",
		e.Module, e.Version, e.Package, by)
}

// Unwrap returns what the go tool wrote.
func (e *NoPackageError) Unwrap() error { return e.Err }

// VersionConflictError says that two versions of one module are asked for.
type VersionConflictError struct {
	// Module is the path of the module.
	Module string
	// Asked is the version that was asked for, and Required the one that RequiredBy (MODULE@VERSION, or empty) needs.
	Asked, Required, RequiredBy string
	// Err is what the go tool wrote, or nil.
	Err error
}

// Error names both versions, and who wants them.
func (e *VersionConflictError) Error() string {
	by := e.RequiredBy
	if by == "" {
		by = "another part of the build"
	}
	return fmt.Sprintf("version conflict: %s is asked for at %s, but %s requires %s; ask for %s, or for a version of %s "+
		"that goes with %s",
		e.Module, e.Asked, by, e.Required, e.Required, by, e.Asked)
}

// Unwrap returns what the go tool wrote.
func (e *VersionConflictError) Unwrap() error { return e.Err }

// LostReplacementError says that a module builds only with the replace directives of its own go.mod. The go tool obeys those of
// the module that is built, and no others (go.dev/ref/mod#go-mod-file-replace).
type LostReplacementError struct {
	// Module requires Missing, both as MODULE@VERSION, and nothing can provide that.
	Module, Missing string
	// Flags are the replacements of Module's go.mod as arguments of --replace, as far as they are no directories.
	Flags []string
	// Err is what the go tool wrote.
	Err error
}

// Error says what to add to the command line.
func (e *LostReplacementError) Error() string {
	text := fmt.Sprintf("%s requires %s, which exists only through a replace directive in its own go.mod, and Go applies "+
		"those to the main module alone", e.Module, e.Missing)
	if len(e.Flags) == 0 {
		return text + "; add --replace MODULE=MODULE@VERSION with a released version of each such module"
	}
	return text + "; add --replaces-of " + e.Module + ", or what that go.mod says:\n  --replace " + strings.Join(e.Flags, "\n  --replace ")
}

// Unwrap returns what the go tool wrote.
func (e *LostReplacementError) Unwrap() error { return e.Err }

// CompileError says that the sources do not compile with the versions that were picked.
type CompileError struct {
	// Lines are what the compiler wrote, each with file and line.
	Lines []string
	// Modules are the modules that the failing packages belong to, and those of Kubernetes and Mooring.
	Modules []ModuleVersion
	// Err is what the go tool wrote.
	Err error
}

// maxCompileLines is how many lines of the compiler an error shows: the first cause the others.
const maxCompileLines = 12

// Error shows the first lines and the versions that met.
func (e *CompileError) Error() string {
	lines := e.Lines
	if more := len(lines) - maxCompileLines; more > 0 {
		lines = append(slices.Clone(lines[:maxCompileLines]), fmt.Sprintf("... and %d more lines", more))
	}
	text := "the sources do not compile with these versions of their modules:\n  " + strings.Join(lines, "\n  ") + "\npicked:"
	for _, module := range e.Modules {
		text += "\n  " + module.String()
	}
	return text
}

// Unwrap returns what the go tool wrote.
func (e *CompileError) Unwrap() error { return e.Err }

// ToolchainError says that there is no go tool, or too old a one.
type ToolchainError struct {
	// Have is the release that there is, or empty. Want is the lowest that would do.
	Have, Want string
	// Err is what went wrong.
	Err error
}

// Error says what to install.
func (e *ToolchainError) Error() string {
	if e.Have == "" {
		return fmt.Sprintf("the go tool cannot be run; install Go %s or newer from https://go.dev/dl: %v", e.Want, e.Err)
	}
	return fmt.Sprintf("Go %s is too old: a module needs Go %s; install it from https://go.dev/dl, or set GOTOOLCHAIN=auto to let "+
		"the go tool download it", e.Have, e.Want)
}

// Unwrap returns what went wrong.
func (e *ToolchainError) Unwrap() error { return e.Err }

// NoProviderError says that packages register no provider.
type NoProviderError struct {
	// Packages are their import paths.
	Packages []string
	// Registered are the names of the providers that the other packages register.
	Registered []string
}

// Error says what a package has to do.
func (e *NoProviderError) Error() string {
	text := fmt.Sprintf("no provider is registered by %s; a package does that by calling cloudprovider.RegisterCloudProvider in an "+
		"init function, and it may be another package of that module that does. For one that never does, --factory names a function, and "+
		"--write-main writes a program to go on from", strings.Join(e.Packages, ", "))
	if len(e.Registered) > 0 {
		text += "; the others register " + strings.Join(e.Registered, ", ")
	}
	return text
}

// ProbeError says that a program that only imports the packages does not even start.
type ProbeError struct {
	// Output is what it wrote.
	Output string
	// Err is how it ended.
	Err error
}

// Error shows what the program wrote.
func (e *ProbeError) Error() string {
	return fmt.Sprintf("a program that only imports these packages fails when it starts (%v):\n%s", e.Err, e.Output)
}

// Unwrap returns how the program ended.
func (e *ProbeError) Unwrap() error { return e.Err }

// OutputError says that a file cannot be written where it was asked for.
type OutputError struct {
	File string
	Err  error
}

// Error names the file.
func (e *OutputError) Error() string { return fmt.Sprintf("cannot write %s: %v", e.File, e.Err) }

// Unwrap returns why not.
func (e *OutputError) Unwrap() error { return e.Err }

// SourceError says that Mooring's own sources are not known, or that a directory holds no package.
type SourceError struct {
	// Dir is the directory, or empty for Mooring's.
	Dir string
	Err error
}

// Error says what to do about it.
func (e *SourceError) Error() string {
	if e.Dir == "" {
		return fmt.Sprintf("the version of Mooring to build with is not known (%v): run inside a checkout of it, or give "+
			"--mooring-version VERSION or --replace %s=DIRECTORY", e.Err, Module)
	}
	return fmt.Sprintf("directory %s: %v", e.Dir, e.Err)
}

// Unwrap returns what is wrong.
func (e *SourceError) Unwrap() error { return e.Err }
