package localcluster

import (
	"fmt"
	"os"
	"strings"

	"github.com/mooring-ccm/mooring/internal/version"
)

// VersionVariable is the environment variable that chooses the version of Kubernetes of everything that is built without
// BuildOptions.Version, for example "1.35" or "v1.35.4".
const VersionVariable = "MOORING_KUBERNETES_VERSION"

// DefaultVersion is the version of Kubernetes to build unless VersionVariable or BuildOptions.Version chooses another.
const DefaultVersion = "v1.36.3"

// pinned is a version of Kubernetes that can be built.
type pinned struct {
	version string
	// modFile is the file in dev/localcluster/binaries that pins the version and every module that goes into it. The file beside it that ends
	// in .sum holds their checksums.
	modFile string
}

// pins are the versions of Kubernetes that can be built: the versions on which Mooring is tested. go.mod pins DefaultVersion; the others
// have a file of their own, with which the go tool builds the same sources (ADR 5).
func pins() []pinned {
	var all []pinned
	for _, tested := range version.TestedKubernetes() {
		pin := pinned{version: tested, modFile: "go.mod"}
		if tested != DefaultVersion {
			pin.modFile = "kubernetes-" + minorOf(strings.TrimPrefix(tested, "v")) + ".mod"
		}
		all = append(all, pin)
	}
	return all
}

// Versions returns the versions of Kubernetes that can be built, the oldest first.
func Versions() []string { return version.TestedKubernetes() }

// ChosenVersion returns the version of Kubernetes that Build builds without BuildOptions.Version: the one of VersionVariable, or else
// DefaultVersion. It is an error if the variable names none of Versions.
func ChosenVersion() (string, error) {
	pin, err := pinOf("")
	return pin.version, err
}

// pinOf finds a version by its number or by its minor release. Empty means what VersionVariable says, or else DefaultVersion.
func pinOf(name string) (pinned, error) {
	from := "the version"
	if name == "" {
		name, from = os.Getenv(VersionVariable), VersionVariable
	}
	if name == "" {
		name = DefaultVersion
	}
	wanted := strings.TrimPrefix(name, "v")
	for _, pin := range pins() {
		if known := strings.TrimPrefix(pin.version, "v"); known == wanted || minorOf(known) == wanted {
			return pin, nil
		}
	}
	return pinned{}, fmt.Errorf("%s is %q, but Kubernetes can be built as %s", from, name, strings.Join(Versions(), ", "))
}

// minorOf returns the minor release of a version: "1.35" of "1.35.4".
func minorOf(version string) string { return version[:strings.LastIndex(version, ".")] }
