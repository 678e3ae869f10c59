// Package profiles holds what is known of plugins that others wrote and that declare nothing themselves: how many of their calls that
// read may be under way at the same time. A plugin is recognized by the Go package of its type, and by the major version of its module; a
// package that wraps it is another plugin. What is not known stays as in the reference.
package profiles

import (
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"

	cloudprovider "k8s.io/cloud-provider"
)

// Profile is what is known of a plugin.
type Profile struct {
	// Name is the name of the cloud.
	Name string
	// Package is the Go package of the plugin's type, and Module the module that it is in.
	Package, Module string
	// ReadAt is the version of the module whose source was read. The profile holds for its major version.
	ReadAt string
	// InFlight is how many calls may be under way at once, reads of the same kind among them. Zero: as many as from the reference.
	InFlight int
	// LoadBalancerWrites is how many Services' load balancers the vendor's own manifest has changed at once. Zero: as from the reference.
	LoadBalancerWrites int
	// EnsureChanged says that a new leader leaves alone what has not changed since the last one: an Ensure disturbs what is right.
	EnsureChanged bool
	// Source says where that is shown.
	Source string
}

// Of returns the profile of a plugin, or an error that says why none holds.
func Of(plugin cloudprovider.Interface) (Profile, error) {
	return find(packageOf(plugin), versions())
}

// packageOf returns the Go package of a plugin's type.
func packageOf(plugin cloudprovider.Interface) string {
	typed := reflect.TypeOf(plugin)
	for typed != nil && typed.Kind() == reflect.Pointer {
		typed = typed.Elem()
	}
	if typed == nil {
		return ""
	}
	return typed.PkgPath()
}

// versions returns the versions of the modules that this program is made of, by their paths.
func versions() map[string]string {
	built, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	found := map[string]string{built.Main.Path: built.Main.Version}
	for _, module := range built.Deps {
		found[module.Path] = module.Version
		if module.Replace != nil && module.Replace.Version != "" {
			found[module.Path] = module.Replace.Version
		}
	}
	return found
}

func find(pkg string, versions map[string]string) (Profile, error) {
	for _, known := range known {
		if known.Package != pkg {
			continue
		}
		if version := versions[known.Module]; majorOf(version) != majorOf(known.ReadAt) {
			return Profile{}, fmt.Errorf("the profile of %s was made for %s %s, and this program has %q", known.Name, known.Module, known.ReadAt, version)
		}
		return known, nil
	}
	return Profile{}, fmt.Errorf("there is no profile of package %q", pkg)
}

// majorOf returns the major version of a module, empty if the version is none.
func majorOf(version string) string {
	major, _, found := strings.Cut(version, ".")
	if !found || !strings.HasPrefix(major, "v") {
		return ""
	}
	return major
}
