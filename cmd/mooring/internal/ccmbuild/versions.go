package ccmbuild

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Picked is what the go tool chose: the modules of which packages are built, and which of them holds each package.
type Picked struct {
	Modules []ModuleVersion
	// Holder is the index in Modules, by the package's path. Packages of the standard library are in none.
	Holder map[string]int
}

// ModuleVersion is a module of the build, as the go tool chose it.
type ModuleVersion struct {
	Path, Version string
	// Dir is the directory that replaces it, or empty.
	Dir string
}

// String returns the module as the go tool's build information shows it.
func (m ModuleVersion) String() string {
	if m.Dir != "" {
		return m.Path + " => " + m.Dir
	}
	return m.Path + " " + m.Version
}

// stagingModules are the modules of Kubernetes that are released together, tested together, and fit together only then
// (github.com/kubernetes/kubernetes, staging/README.md).
var stagingModules = []string{
	"api", "apiextensions-apiserver", "apimachinery", "apiserver", "cli-runtime", "client-go", "cloud-provider", "cluster-bootstrap",
	"component-base", "component-helpers", "controller-manager", "cri-api", "csi-translation-lib", "kms", "kubelet", "metrics",
	"mount-utils", "pod-security-admission", "streaming",
}

// planAlignment returns the arguments of go get that bring all modules of Kubernetes to one minor version: the highest that any module
// requires. The go tool itself raises only the modules that another module requires at a higher version, and leaves the others behind.
func planAlignment(modules []ModuleVersion) []string {
	var highest [2]int
	versions := map[string][2]int{}
	for _, module := range modules {
		name, staging := strings.CutPrefix(module.Path, "k8s.io/")
		version, ok := stagingVersion(module.Version)
		if !staging || !slices.Contains(stagingModules, name) || !ok || module.Dir != "" {
			continue
		}
		versions[module.Path] = version
		if slices.Compare(version[:], highest[:]) > 0 {
			highest = version
		}
	}
	var raise []string
	for _, path := range slices.Sorted(maps.Keys(versions)) {
		if versions[path][0] < highest[0] {
			raise = append(raise, fmt.Sprintf("%s@v0.%d.%d", path, highest[0], highest[1]))
		}
	}
	return raise
}

// stagingVersion reads the minor and the patch version of v0.MINOR.PATCH.
func stagingVersion(text string) (version [2]int, ok bool) {
	rest, found := strings.CutPrefix(text, "v0.")
	minor, patch, more := strings.Cut(rest, ".")
	if !found || !more {
		return version, false
	}
	var errs [2]error
	version[0], errs[0] = strconv.Atoi(minor)
	version[1], errs[1] = strconv.Atoi(patch)
	return version, errs[0] == nil && errs[1] == nil
}

// KubernetesVersion is the version of Kubernetes whose libraries are built in, such as "v1.36.3", or empty if they have none. The
// daemon has component-base; a tool may be without it, but not without the contract of providers.
func KubernetesVersion(modules []ModuleVersion) string {
	for _, path := range []string{"k8s.io/component-base", "k8s.io/cloud-provider"} {
		for _, module := range modules {
			if version, ok := stagingVersion(module.Version); module.Path == path && ok {
				return fmt.Sprintf("v1.%d.%d", version[0], version[1])
			}
		}
	}
	return ""
}

// checkAsked returns an error for the first module that was asked for in one version and picked in another.
func checkAsked(request Request, found Found, picked Picked) error {
	asked := map[string]string{}
	for _, one := range request.Packages {
		holder, known := picked.Holder[one.Path]
		if known && strings.HasPrefix(one.Version, "v") && strings.Count(one.Version, ".") >= 2 {
			asked[picked.Modules[holder].Path] = one.Version
		}
	}
	if found.Mooring.Dir == "" {
		asked[found.Mooring.Module] = found.Mooring.Version
	}
	for _, module := range picked.Modules {
		if version := asked[module.Path]; version != "" && module.Dir == "" && module.Version != version {
			return &VersionConflictError{Module: module.Path, Asked: version, Required: module.Version}
		}
	}
	return nil
}
