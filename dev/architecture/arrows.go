// Package architecture holds the project to its map, ARCHITECTURE.md: who may import whom, and which files are pure.
package architecture

import (
	"fmt"
	"slices"
	"strings"
)

// Module is the path of the project's module.
const Module = "github.com/mooring-ccm/mooring"

// anything lets a room import every other.
const anything = "..."

// arrows says which rooms of this module a room may import, besides rooms inside itself. The longest prefix of a
// package's path decides. It is the table of ARCHITECTURE.md.
var arrows = map[string][]string{
	"provider":              {},
	"provider/conformance":  {"provider"},
	"provider/profiles":     {},
	"providers/internal":    {"internal/message", "provider"},
	"providers/sim":         {"provider", "providers/internal", "internal/message"},
	"providers/sim/simtest": {"providers/sim"},
	"providers/metal":       {"provider", "providers/internal", "internal/leaserecord", "internal/message", "internal/names", "internal/prefixes", "internal/required"},
	// The two halves of metal touch in the config only; routing and self are leaves.
	"providers/metal/config": {"provider", "providers/internal", "internal/message", "internal/names", "internal/prefixes", "internal/required", "providers/metal/routing"},
	"providers/metal/lb": {"provider", "providers/internal", "internal/message", "internal/names", "internal/prefixes", "internal/required",
		"providers/metal/config", "providers/metal/routing", "providers/metal/self"},
	"providers/metal/machines": {"provider", "providers/internal", "internal/leaserecord", "internal/message", "internal/names", "internal/required",
		"providers/metal/config", "providers/metal/self"},
	"providers/openstack":          {"provider", "providers/internal", "internal/message", "internal/version"},
	"internal/cloud/classify":      {"internal/names", "provider"},
	"internal/cloud/guard":         {"internal/cloud/classify"},
	"internal/cloud/admission":     {"internal/cloud/classify", "internal/cloud/guard", "provider"},
	"internal/cloud":               {"provider", "internal/message", "internal/metric", "internal/names", "internal/secrets", "internal/sleep"},
	"internal/dryrun":              {"ccm/plan", "internal/controller/kit", "provider"},
	"internal/election":            {"internal/version", "internal/sleep"},
	"internal/embedded":            {},
	"internal/instances":           {"internal/cloud", "internal/message", "internal/metric", "internal/names", "provider", "internal/sleep"},
	"internal/instances/ownership": {"provider"},
	"internal/nodeview":            {"internal/cloud", "internal/controller/kit", "internal/instances", "provider"},
	"internal/message":             {},
	"internal/metric":              {},
	"internal/names":               {},
	"internal/orphans":             {"provider"},
	"internal/reconnect":           {"internal/controller/kit", "internal/sleep"},
	"internal/sleep":               {},
	"internal/secrets":             {"internal/message"},
	"internal/tool":                {"internal/version"},
	"internal/version":             {},
	"internal/version/stamp":       {},
	"internal/prefixes":            {},
	"internal/required":            {},
	"internal/controller/kit":      {"internal/cloud", "internal/message", "provider"},
	"internal/leaserecord":         {"internal/controller/kit"},
	"internal/controller": {"internal/controller/kit", "internal/leaserecord", "internal/instances", "internal/nodeview", "internal/cloud", "internal/message", "internal/metric", "internal/names",
		"internal/orphans", "internal/dryrun", "internal/prefixes", "internal/required", "internal/sleep", "provider"},
	"ccm": {"internal/cloud", "internal/controller", "internal/dryrun", "internal/election", "internal/embedded", "internal/instances",
		"internal/leaserecord", "internal/message", "internal/metric", "internal/names", "internal/reconnect", "internal/secrets", "internal/sleep", "internal/version", "provider"},
	"ccm/plan":                      {},
	"extensions/reference":          {"ccm"},
	"extensions":                    {"ccm", "internal/controller/kit", "internal/cloud", "internal/dryrun", "internal/message", "internal/names", "provider"},
	"extensions/metallb":            {"ccm", "providers/metal"},
	"cmd/cloud-controller-manager":  {"ccm", "extensions", "providers"},
	"cmd/mooring":                   {"ccm", "deploy", "internal", "provider", "providers", "vendortool"},
	"cmd/mooring/internal/ccmbuild": {"internal/tool", "internal/version"},
	"cmd/mooring/internal/check": {"cmd/mooring/internal/managers", "cmd/mooring/internal/pages", "cmd/mooring/internal/view", "internal/instances/ownership", "internal/names", "internal/version",
		"deploy", "internal/tool/words"},
	"cmd/mooring/internal/cloudconfig": {"internal/message", "providers/metal/config", "providers/openstack/config", "providers/sim", "internal/tool/words"},
	"cmd/mooring/internal/managers":    {},
	"cmd/mooring/internal/pages":       {},
	"cmd/mooring/internal/view":        {"internal/instances/ownership", "internal/names", "ccm/plan"},
	"deploy":                           {},
	"providers/sim/fault":              {},
	"vendortool":                       {"internal/orphans", "internal/version", "provider", "internal/tool/cli"},
	"dev":                              {anything},
}

// violations returns one line for each import of a package that the arrows forbid. Paths are relative to the module.
func violations(importer string, imports []string) []string {
	room, allowed, found := roomOf(importer)
	if !found {
		return []string{fmt.Sprintf("%s is in no room of ARCHITECTURE.md: give it one there and here", importer)}
	}
	var broken []string
	for _, imported := range imports {
		switch {
		case slices.Contains(allowed, anything):
		case strings.HasPrefix(importer, "internal/controller/"):
			if !sameController(importer, imported) && !within(allowed, imported) {
				broken = append(broken, fmt.Sprintf("%s imports %s; a controller may import %v, and no other controller",
					importer, imported, allowed))
			}
		case !within(append([]string{room}, allowed...), imported):
			broken = append(broken, fmt.Sprintf("%s imports %s; %s may import %v", importer, imported, room, allowed))
		}
		if strings.HasPrefix(imported, "cmd/") && !strings.HasPrefix(imported, "cmd/mooring/internal/") { // the compiler checks those
			broken = append(broken, fmt.Sprintf("%s imports the program %s", importer, imported))
		}
	}
	return broken
}

// roomOf returns the room with the longest path that holds the package.
func roomOf(path string) (room string, allowed []string, found bool) {
	for candidate, may := range arrows {
		if within([]string{candidate}, path) && len(candidate) > len(room) {
			room, allowed, found = candidate, may, true
		}
	}
	return room, allowed, found
}

// sameController reports whether both packages belong to one controller's folder.
func sameController(importer, imported string) bool {
	first := strings.SplitN(strings.TrimPrefix(importer, "internal/controller/"), "/", 2)[0]
	return within([]string{"internal/controller/" + first}, imported)
}

// within reports whether a path is one of the rooms or inside one.
func within(rooms []string, path string) bool {
	return slices.ContainsFunc(rooms, func(room string) bool {
		return path == room || strings.HasPrefix(path, room+"/")
	})
}
