package ccmbuild

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Source is where a module comes from that is no ordinary requirement: Mooring's own, and those in directories.
type Source struct {
	// Module is its path.
	Module string
	// Version is what it is required at. A directory has directoryVersion.
	Version string
	// Dir is the directory that replaces it, absolute. Empty for one that the go tool downloads.
	Dir string
}

// minGo is the go directive of the workspace. The go tool raises it to the highest that a module asks for, which is Mooring's at
// least.
const minGo = "1.26.0"

// directoryVersion is what a module is required at that a directory replaces: any version will do.
const directoryVersion = "v0.0.0"

// Found is what was seen of this machine before anything is planned.
type Found struct {
	// Mooring is the source of Mooring itself.
	Mooring Source
	// Directories are the sources of the packages that were asked for as directories, by that directory.
	Directories map[string]LocalPackage
	// Revision is the state of Mooring's directory, if it has one and git knows it.
	Revision Revision
	// GoVersion is the release of the go tool, for example "go1.26.0".
	GoVersion string
}

// Revision is the state of a checkout.
type Revision struct {
	// Name is what git describe calls it, for example "v0.1.0-3-g0123456789ab-dirty", or a pseudo-version of Go.
	Name string
	// Commit is the full ID of the last commit, Date is when it was made, and Dirty says whether files differ from it.
	Commit string
	Date   time.Time
	Dirty  bool
}

// String is the commit as programs are stamped with it, or empty.
func (r Revision) String() string {
	if r.Commit != "" && r.Dirty {
		return r.Commit + "-dirty"
	}
	return r.Commit
}

// MooringVersion names the version of Mooring: a release, or the state of a checkout, or "unversioned".
func (f Found) MooringVersion() string {
	if f.Mooring.Dir == "" {
		return f.Mooring.Version
	}
	return cmp.Or(f.Revision.Name, "unversioned")
}

// LocalPackage is a package in a directory, and the module it belongs to.
type LocalPackage struct {
	Path   string
	Source Source
}

// Workspace is the module that is built, before the go tool has resolved it.
type Workspace struct {
	// Files are the files to write, by their path in the workspace.
	Files map[string]string
	// Links are symbolic links to write, from their name in the workspace to a directory. Links keep the paths of directories out of the
	// program: the same sources give the same bytes wherever they are.
	Links map[string]string
	// Get are the arguments of go get: everything whose version matters at once, so it can say what contradicts what.
	Get []string
	// Imports are the packages of providers. Factories build the providers whose packages register nothing.
	Imports   []string
	Factories []Factory
	// Target is the package to build.
	Target string
}

// probeDir holds the program that says which providers the packages register.
const probeDir = "probe"

// planWorkspace returns the module to build. Its errors are contradictions in the request.
func planWorkspace(request Request, found Found) (Workspace, error) {
	module := request.Program()
	w := Workspace{Files: map[string]string{}, Links: map[string]string{}, Target: module}
	sources := []Source{found.Mooring}
	queries := []string{found.Mooring.Module + "@" + found.Mooring.Version}
	for _, asked := range request.Packages {
		if asked.Dir != "" {
			local := found.Directories[asked.Dir]
			w.Imports = append(w.Imports, local.Path)
			sources = append(sources, local.Source)
			continue
		}
		w.Imports = append(w.Imports, asked.Path)
		if replacement, replaced := replacedBy(request.Replacements, asked.Path); replaced && replacement.Dir != "" {
			continue // The go tool has no version of it to look for.
		}
		queries = append(queries, strings.TrimSuffix(asked.Path+"@"+asked.Version, "@"))
	}
	if doubled, found := firstDouble(w.Imports); found {
		return Workspace{}, fmt.Errorf("package %s is asked for twice", doubled)
	}
	replacements, err := w.link(sources, request.Replacements)
	if err != nil {
		return Workspace{}, err
	}
	for _, source := range required(sources, request.Replacements, w.Imports) {
		if query := source.Module + "@" + source.Version; !slices.Contains(queries, query) {
			queries = append(queries, query)
		}
	}
	w.Get = queries
	w.Files["go.mod"] = modText(module, required(sources, request.Replacements, w.Imports), replacements)
	if request.Shipped {
		w.Target = Module + "/cmd/cloud-controller-manager"
		return w, nil
	}
	if w.Factories, err = planFactories(request.Factories, w.Imports); err != nil {
		return Workspace{}, err
	}
	w.Files["main.go"] = mainText(request.Tool, w.Imports, w.Factories)
	w.Files[probeDir+"/main.go"] = probeText(w.Imports, w.Factories)
	return w, nil
}

// required returns the modules that the workspace requires from the beginning: modules in directories, and Mooring.
func required(sources []Source, replacements []Replacement, imports []string) []Source {
	byPath := map[string]Source{}
	for _, source := range sources {
		byPath[source.Module] = source
	}
	for _, r := range replacements {
		_, known := byPath[r.Module]
		asked := slices.ContainsFunc(imports, func(path string) bool { return within(r.Module, path) })
		if !known && r.Dir != "" && asked {
			byPath[r.Module] = Source{Module: r.Module, Version: cmp.Or(r.Version, directoryVersion), Dir: r.Dir}
		}
	}
	var all []Source
	for _, path := range slices.Sorted(maps.Keys(byPath)) {
		all = append(all, byPath[path])
	}
	return all
}

// link returns the lines of the replace directives, and notes a link for each directory that they need.
func (w *Workspace) link(sources []Source, asked []Replacement) ([]string, error) {
	by := map[string]string{} // what is replaced: by what
	add := func(old, replacement string) error {
		if other, doubled := by[old]; doubled && other != replacement {
			return fmt.Errorf("module %s is replaced by %s and by %s", old, other, replacement)
		}
		by[old] = replacement
		return nil
	}
	for _, source := range sources {
		if source.Dir != "" {
			if err := add(source.Module, source.Dir); err != nil {
				return nil, err
			}
		}
	}
	for _, r := range asked {
		target := r.Dir
		if target == "" {
			target = r.NewModule + " " + r.NewVersion
		}
		if err := add(strings.TrimSpace(r.Module+" "+r.Version), target); err != nil {
			return nil, err
		}
	}
	var lines []string
	for i, old := range slices.Sorted(maps.Keys(by)) {
		target := by[old]
		if isDirectory(target) {
			name := "replaced/" + strconv.Itoa(i+1)
			w.Links[name] = target
			target = "./" + name
		}
		lines = append(lines, old+" => "+target)
	}
	return lines, nil
}

// replacedBy returns the replacement for the module of a package, if there is one: the longest path wins.
func replacedBy(replacements []Replacement, path string) (best Replacement, found bool) {
	for _, candidate := range replacements {
		if within(candidate.Module, path) && len(candidate.Module) > len(best.Module) {
			best, found = candidate, true
		}
	}
	return best, found
}

// within reports whether a package path is a module's, or would be if the module held it.
func within(module, path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

func firstDouble(values []string) (string, bool) {
	for i, value := range values {
		if slices.Contains(values[:i], value) {
			return value, true
		}
	}
	return "", false
}

// modText is the go.mod of the workspace.
func modText(module string, sources []Source, replacements []string) string {
	text := "module " + module + "\n\ngo " + minGo + "\n"
	for _, source := range sources {
		text += "\nrequire " + source.Module + " " + source.Version + "\n"
	}
	for _, line := range replacements {
		text += "\nreplace " + line + "\n"
	}
	return text
}

// mainText is the whole program of a vendor.
func mainText(tool bool, imports []string, factories []Factory) string {
	libraries := "\t" + strconv.Quote(Module+"/ccm") + "\n\t" + strconv.Quote(Module+"/extensions")
	call, what := "ccm.Main(extensions.All()...)", "a cloud controller manager with the providers that it imports"
	if tool {
		libraries = "\t" + strconv.Quote(Module+"/vendortool")
		call, what = "vendortool.Main()", "the tool with which the providers that it imports are tried"
	}
	needed := ""
	if len(factories) > 0 {
		needed = "\t\"io\"\n\n\tcloudprovider \"k8s.io/cloud-provider\"\n\n"
	}
	return "// This program is " + what + ". \"mooring build\" wrote it.\n" +
		"package main\n\nimport (\n" + needed + libraries + "\n\n" + importLines(imports, factories) +
		")\n" + registrations(factories) + "\nfunc main() { " + call + " }\n"
}

// probeName is a provider that the probe registers itself, to see whether it sees what is registered.
const probeName = "mooring-build-probe"

// probeText is a program that writes a line for each registered provider: its name, and the function that builds it. The public API
// of k8s.io/cloud-provider answers for one name and lists none, so the program reads its map. Without the map, nothing is checked.
func probeText(imports []string, factories []Factory) string {
	return `// This program says which providers the packages register. "mooring build" wrote it.
package main

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	_ "unsafe" // for go:linkname

	cloudprovider "k8s.io/cloud-provider"

` + importLines(imports, factories) + `)

//go:linkname providers k8s.io/cloud-provider.providers
var providers map[string]cloudprovider.Factory
` + registrations(factories) + `
func main() {
	cloudprovider.RegisterCloudProvider("` + probeName + `", func(io.Reader) (cloudprovider.Interface, error) {
		return nil, errors.New("this is no provider")
	})
	for name, factory := range providers {
		fmt.Printf("%q %s\n", name, runtime.FuncForPC(reflect.ValueOf(factory).Pointer()).Name())
	}
}
`
}

// planFactories returns the factories with the paths of their packages, which are among the imports.
func planFactories(factories []Factory, imports []string) ([]Factory, error) {
	var planned []Factory
	var wrong []error
	for _, f := range factories {
		switch {
		case f.Path == "" && len(imports) != 1:
			wrong = append(wrong, fmt.Errorf("factory %s of provider %s: say which of the %d packages it is in", f.Func, f.Name, len(imports)))
		case f.Path == "":
			f.Path = imports[0]
		case !slices.Contains(imports, f.Path):
			wrong = append(wrong, fmt.Errorf("factory %s of provider %s: package %s is not one that is built with", f.Func, f.Name, f.Path))
		}
		if slices.ContainsFunc(planned, func(other Factory) bool { return other.Name == f.Name }) {
			wrong = append(wrong, fmt.Errorf("provider %s has two factories", f.Name))
		}
		planned = append(planned, f)
	}
	return planned, errors.Join(wrong...)
}

// importLines are the lines of an import declaration: each package by a name if it has factories, or else for what its init does.
func importLines(imports []string, factories []Factory) string {
	text := ""
	for _, path := range slices.Sorted(slices.Values(imports)) {
		name := "_"
		if i := slices.IndexFunc(factories, func(f Factory) bool { return f.Path == path }); i >= 0 {
			name = packageName(factories, path)
		}
		text += "\t" + name + " " + strconv.Quote(path) + "\n"
	}
	return text
}

// packageName is what the generated program calls the package of a factory.
func packageName(factories []Factory, path string) string {
	i := slices.IndexFunc(factories, func(f Factory) bool { return f.Path == path })
	return "provider" + strconv.Itoa(i+1)
}

// registrations is the init function that registers the factories.
func registrations(factories []Factory) string {
	if len(factories) == 0 {
		return ""
	}
	text := "\nfunc init() {\n"
	for _, f := range factories {
		text += "\tcloudprovider.RegisterCloudProvider(" + strconv.Quote(f.Name) +
			", func(config io.Reader) (cloudprovider.Interface, error) {\n\t\treturn " +
			packageName(factories, f.Path) + "." + f.Func + "(config)\n\t})\n"
	}
	return text + "}\n"
}
