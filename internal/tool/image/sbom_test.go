package image

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// The list of a program's parts holds what the linker wrote into it.
func TestSBOM(t *testing.T) {
	self := filepath.Join(t.TempDir(), "program")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", self, "../../../dev/cmd/gobuild")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building a program: %v\n%s", err, output)
	}
	programs := []Program{
		{Platform: v1.Platform{OS: "linux", Architecture: "amd64"}, File: self},
		{Platform: v1.Platform{OS: "linux", Architecture: "arm64"}, File: self},
	}
	content, err := SBOM("tested", "v1.2.3+x", time.Unix(0, 0), programs)
	if err != nil {
		t.Fatal(err)
	}
	again, err := SBOM("tested", "v1.2.3+x", time.Unix(0, 0), programs)
	if err != nil || !bytes.Equal(content, again) {
		t.Errorf("the same programs give other bytes, %v", err)
	}
	// By the names of SPDX 2.3, not by the library that wrote it.
	var document struct {
		Version      string `json:"spdxVersion"`
		DataLicense  string `json:"dataLicense"`
		ID           string `json:"SPDXID"`
		Name         string `json:"name"`
		Namespace    string `json:"documentNamespace"`
		CreationInfo struct {
			Created  string
			Creators []string
		}
		Packages []struct {
			ID               string `json:"SPDXID"`
			Name             string `json:"name"`
			Version          string `json:"versionInfo"`
			DownloadLocation string
			FilesAnalyzed    *bool
			LicenseConcluded string
			LicenseDeclared  string
			Copyright        string `json:"copyrightText"`
			Purpose          string `json:"primaryPackagePurpose"`
			SourceInfo       string
			Checksums        []struct{ Algorithm, ChecksumValue string }
			References       []struct{ ReferenceCategory, ReferenceType, ReferenceLocator string } `json:"externalRefs"`
		}
		Relationships []struct {
			Element string `json:"spdxElementId"`
			Type    string `json:"relationshipType"`
			Related string `json:"relatedSpdxElement"`
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&document); err != nil {
		t.Fatal(err)
	}
	if document.CreationInfo.Created != "1970-01-01T00:00:00Z" || document.Version != "SPDX-2.3" ||
		document.DataLicense != "CC0-1.0" || document.ID != "SPDXRef-DOCUMENT" ||
		!strings.HasPrefix(document.Namespace, spdxNamespace+"tested-") {
		t.Errorf("document: %+v", document)
	}
	known := map[string]bool{document.ID: true}
	for _, found := range document.Packages {
		if known[found.ID] {
			t.Errorf("%s is listed twice", found.ID)
		}
		known[found.ID] = true
		if found.FilesAnalyzed == nil || *found.FilesAnalyzed {
			t.Errorf("%s claims that its files were analyzed", found.ID)
		}
	}
	for _, relationship := range document.Relationships {
		if !known[relationship.Element] || !known[relationship.Related] {
			t.Errorf("relationship with what is not listed: %+v", relationship)
		}
	}
	info, err := buildinfo.ReadFile(self)
	if err != nil || len(info.Deps) == 0 {
		t.Fatalf("the program has no modules: %v", err)
	}
	// Two programs, the standard library, the main module, the others.
	if want := 2 + 1 + 1 + len(info.Deps); len(document.Packages) != want {
		t.Errorf("%d packages, want %d", len(document.Packages), want)
	}
	for _, module := range info.Deps {
		want := `"referenceLocator": "pkg:golang/` + module.Path + "@" + module.Version + `"`
		if !bytes.Contains(content, []byte(want)) || !bytes.Contains(content, []byte("go.sum "+module.Sum)) {
			t.Errorf("%s %s %s is not listed", module.Path, module.Version, module.Sum)
		}
	}
}

func TestModulePackageOfADirectory(t *testing.T) {
	if found := modulePackage("example.com/x", "(devel)", ""); found.PackageExternalReferences != nil || found.PackageSourceInfo != "" {
		t.Errorf("%+v names a version or a sum that a directory does not have", found)
	}
	found := modulePackage("example.com/x", "v1.0.0+incompatible", "h1:x")
	if found.PackageExternalReferences[0].Locator != "pkg:golang/example.com/x@v1.0.0%2Bincompatible" {
		t.Errorf("package URL %q", found.PackageExternalReferences[0].Locator)
	}
}
