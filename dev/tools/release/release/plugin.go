package release

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/mooring-ccm/mooring/deploy/krew"
	"github.com/mooring-ccm/mooring/internal/version"
)

const (
	// tool is the program that is a plugin of kubectl, too.
	tool = "mooring"
	// PluginFile is the manifest by which Krew installs it.
	PluginFile = "krew.yaml"
)

// plugin writes Krew's manifest, for archives where a release of the project has its files. A release without the tool has none.
func (r *run) plugin(context.Context) error {
	listed := krew.Release{Version: r.Version}
	for _, program := range r.Programs {
		if program.Name != tool {
			continue
		}
		for _, platform := range program.Platforms {
			archive := archiveName(tool, r.Version, platform)
			sum, err := sha256Of(filepath.Join(r.Output, archive))
			if err != nil {
				return err
			}
			goos, arch, _ := strings.Cut(platform, "/")
			listed.Archives = append(listed.Archives, krew.Archive{
				OS: goos, Arch: arch, URI: "https://" + version.Module + "/releases/download/" + r.Version + "/" + archive, SHA256: sum,
			})
		}
	}
	if len(listed.Archives) == 0 {
		return nil
	}
	manifest, err := krew.Manifest(listed)
	if err != nil {
		return err
	}
	return r.write(PluginFile, manifest)
}
