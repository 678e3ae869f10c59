// Package krew writes the manifest by which Krew installs the tool as a plugin of kubectl.
package krew

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"text/template"
)

//go:embed mooring.yaml.tmpl
var source string

var manifest = template.Must(template.New("krew").Parse(source))

// Release is what a manifest says of a release.
type Release struct {
	// Version is that of the release, with a v: "v0.1.0".
	Version string
	// Archives are one for each platform, with the program "mooring" at their top. Krew links it as kubectl-mooring.
	Archives []Archive
}

// Archive is a release for a platform.
type Archive struct {
	// OS and Arch are in Go's words: linux, amd64.
	OS, Arch string
	// URI is where the archive is, and SHA256 its checksum in hexadecimal digits.
	URI, SHA256 string
}

var (
	versionFormat = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)
	sumFormat     = regexp.MustCompile(`^[0-9a-f]{64}$`)
	wordFormat    = regexp.MustCompile(`^[a-z0-9]+$`)
)

// Manifest returns the manifest of a release. It reports everything at once that Krew would refuse.
func Manifest(release Release) ([]byte, error) {
	var wrong []error
	if !versionFormat.MatchString(release.Version) {
		wrong = append(wrong, fmt.Errorf("version %q: must be as v1.2.3", release.Version))
	}
	if len(release.Archives) == 0 {
		wrong = append(wrong, errors.New("archives: at least one is required"))
	}
	platforms := map[string]bool{}
	for _, archive := range release.Archives {
		platform := archive.OS + "/" + archive.Arch
		location, err := url.Parse(archive.URI)
		switch {
		case !wordFormat.MatchString(archive.OS) || !wordFormat.MatchString(archive.Arch):
			wrong = append(wrong, fmt.Errorf("platform %q: must be OS/ARCH", platform))
		case platforms[platform]:
			wrong = append(wrong, fmt.Errorf("platform %s: twice", platform))
		}
		platforms[platform] = true
		if err != nil || location.Scheme != "https" || location.Host == "" {
			wrong = append(wrong, fmt.Errorf("%s: URI %q: must be https", platform, archive.URI))
		}
		if !sumFormat.MatchString(archive.SHA256) {
			wrong = append(wrong, fmt.Errorf("%s: SHA-256 %q: must be 64 hexadecimal digits", platform, archive.SHA256))
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := manifest.Execute(&out, release); err != nil {
		return nil, fmt.Errorf("filling the manifest: %w", err)
	}
	return out.Bytes(), nil
}
