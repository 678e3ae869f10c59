package release

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Program is a program that is released, and the platforms that it is for.
type Program struct {
	// Name is that of its folder below cmd.
	Name string
	// Platforms are OS/ARCH.
	Platforms []string
}

// Programs are those of a release.
var Programs = []Program{
	{Name: Daemon, Platforms: []string{"linux/amd64", "linux/arm64"}},
	{Name: "mooring", Platforms: []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}},
}

// Daemon is the program that there is an image of.
const Daemon = "cloud-controller-manager"

// Names of files of a release.
const (
	// SumsFile lists the SHA-256 of every other file but the signatures, as sha256sum reads it.
	SumsFile = "SHA256SUMS"
	// DigestsFile lists the digests by which the image and the chart are pulled once they are pushed.
	DigestsFile = "DIGESTS"
	// ProvenanceFile is the statement of how the files were made: in-toto, with SLSA provenance v1 as predicate.
	ProvenanceFile = "provenance.intoto.json"
	// signatureSuffix is behind the name of a signed file.
	signatureSuffix = ".sig"
)

// semantic is the form of a version that Go, Helm and registries take: no build metadata.
var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// checkVersion returns an error for an invalid version.
func checkVersion(version string) error {
	if !semantic.MatchString(version) {
		return fmt.Errorf("version %q: must be vMAJOR.MINOR.PATCH, with -PRERELEASE behind it or not, for example v0.1.0", version)
	}
	return nil
}

// archiveName is the name of the archive of a program for a platform.
func archiveName(program, version, platform string) string {
	return program + "-" + version + "-" + strings.ReplaceAll(platform, "/", "-") + ".tar.gz"
}

// checkPrograms returns an error if there is nothing to build, or a platform is invalid.
func checkPrograms(programs []Program) error {
	var wrong []error
	if len(programs) == 0 {
		wrong = append(wrong, errors.New("no program"))
	}
	for _, program := range programs {
		for _, platform := range program.Platforms {
			if strings.Count(platform, "/") != 1 {
				wrong = append(wrong, fmt.Errorf("platform %q of %s: must be OS/ARCH", platform, program.Name))
			}
		}
	}
	if !slices.ContainsFunc(programs, func(p Program) bool { return p.Name == Daemon }) {
		wrong = append(wrong, fmt.Errorf("no %s, of which the image is made", Daemon))
	}
	return errors.Join(wrong...)
}
