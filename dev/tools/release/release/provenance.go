package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/mooring-ccm/mooring/internal/version"
)

// statement is an in-toto statement v1 (github.com/in-toto/attestation, spec/v1/statement.md) with SLSA provenance v1 as its
// predicate (slsa.dev/spec/v1.0/provenance). Its fields stand in the order of those documents.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

// resource is a descriptor of a file or a source.
type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

type predicate struct {
	BuildDefinition buildDefinition `json:"buildDefinition"`
	RunDetails      runDetails      `json:"runDetails"`
}

type buildDefinition struct {
	BuildType            string            `json:"buildType"`
	ExternalParameters   map[string]string `json:"externalParameters"`
	InternalParameters   map[string]string `json:"internalParameters"`
	ResolvedDependencies []resource        `json:"resolvedDependencies"`
}

type runDetails struct {
	Builder struct {
		ID string `json:"id"`
	} `json:"builder"`
}

// provenance writes how the files were made. There is no time and no ID of the run in it, which SLSA leaves open, so that whoever
// builds the same commit gets the same statement. The builder is whoever ran this: that of SLSA level 1.
func (r *run) provenance(context.Context) error {
	names, err := r.files()
	if err != nil {
		return err
	}
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	for _, name := range names {
		digest, err := sha256Of(filepath.Join(r.Output, name))
		if err != nil {
			return err
		}
		s.Subject = append(s.Subject, resource{Name: name, Digest: map[string]string{"sha256": digest}})
	}
	for name, digest := range map[string]string{Daemon: r.digests.Image, chartName: r.digests.Chart} {
		s.Subject = append(s.Subject, resource{Name: "oci:" + name, Digest: map[string]string{"sha256": strings.TrimPrefix(digest, "sha256:")}})
	}
	slices.SortFunc(s.Subject, func(a, b resource) int { return strings.Compare(a.Name, b.Name) })
	source := resource{URI: "git+https://" + version.Module, Digest: map[string]string{"gitCommit": r.Commit}}
	s.Predicate.BuildDefinition = buildDefinition{
		BuildType:            "https://" + version.Module + "/tree/main/dev/tools/release",
		ExternalParameters:   map[string]string{"version": r.Version},
		InternalParameters:   map[string]string{"go": runtime.Version()},
		ResolvedDependencies: []resource{source},
	}
	for _, name := range slices.Sorted(maps.Keys(r.materials)) {
		material := resource{Name: name, Digest: map[string]string{"sha256": r.materials[name]}}
		s.Predicate.BuildDefinition.ResolvedDependencies = append(s.Predicate.BuildDefinition.ResolvedDependencies, material)
	}
	s.Predicate.RunDetails.Builder.ID = "https://" + version.Module + "/dev/tools/release"
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("provenance: %w", err)
	}
	return r.write(ProvenanceFile, append(text, '\n'))
}

// sums writes the checksums of all files that are there.
func (r *run) sums(context.Context) error {
	names, err := r.files()
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, name := range names {
		digest, err := sha256Of(filepath.Join(r.Output, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", digest, name)
	}
	return r.write(SumsFile, []byte(text.String()))
}

func sha256Of(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("checksum: %w", err)
	}
	defer func() { _ = file.Close() }()
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return "", fmt.Errorf("checksum of %s: %w", path, err)
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}
