package image

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// The parts of an SPDX document that are written, as SPDX 2.3 names them (spdx.github.io/spdx-spec/v2.3).
type (
	spdxDocument struct {
		Version       string             `json:"spdxVersion"`
		DataLicense   string             `json:"dataLicense"`
		ID            string             `json:"SPDXID"`
		Name          string             `json:"name"`
		Namespace     string             `json:"documentNamespace"`
		CreationInfo  spdxCreation       `json:"creationInfo"`
		Packages      []spdxPackage      `json:"packages"`
		Relationships []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID               string          `json:"SPDXID"`
		Name             string          `json:"name"`
		Version          string          `json:"versionInfo,omitempty"`
		DownloadLocation string          `json:"downloadLocation"`
		FilesAnalyzed    bool            `json:"filesAnalyzed"`
		LicenseConcluded string          `json:"licenseConcluded"`
		LicenseDeclared  string          `json:"licenseDeclared"`
		Copyright        string          `json:"copyrightText"`
		Purpose          string          `json:"primaryPackagePurpose,omitempty"`
		SourceInfo       string          `json:"sourceInfo,omitempty"`
		Checksums        []spdxChecksum  `json:"checksums,omitempty"`
		References       []spdxReference `json:"externalRefs,omitempty"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxReference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		Element string `json:"spdxElementId"`
		Type    string `json:"relationshipType"`
		Related string `json:"relatedSpdxElement"`
	}
)

const (
	spdxDocumentID  = "SPDXRef-DOCUMENT"
	spdxNoAssertion = "NOASSERTION"
	// spdxNamespace begins the URI that tells documents apart. The specification asks for a unique one, not for one that answers.
	spdxNamespace = "https://github.com/mooring-ccm/mooring/spdx/"
)

// SBOM lists what programs were built from, as SPDX 2.3 JSON. It is made from what the Go linker wrote into the programs: each
// module with its version and its sum as in go.sum, and the Go release. A module that another one replaces is listed as that
// other one. A time of zero is the beginning of 1970. The same programs give the same bytes.
func SBOM(name, version string, created time.Time, programs []Program) ([]byte, error) {
	document := spdxDocument{Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: spdxDocumentID, Name: name}
	document.CreationInfo = spdxCreation{
		Created: orEpoch(created).Format(time.RFC3339), Creators: []string{"Tool: mooring-build"},
	}
	modules := map[string]spdxPackage{}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program.File)
		if err != nil {
			return nil, fmt.Errorf("modules of %s: %w", program.File, err)
		}
		digest, err := sha256Of(program.File)
		if err != nil {
			return nil, fmt.Errorf("digest of %s: %w", program.File, err)
		}
		root := describe("SPDXRef-Program-"+spdxID(program.Platform.String()), name, version)
		root.Purpose, root.SourceInfo = "APPLICATION", "built for "+program.Platform.String()
		root.Checksums = []spdxChecksum{{"SHA256", digest}}
		document.Packages = append(document.Packages, root)
		document.relate(spdxDocumentID, "DESCRIBES", root.ID)
		for _, part := range parts(info, name) {
			modules[part.ID] = part
			document.relate(root.ID, "DEPENDS_ON", part.ID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(modules)) {
		document.Packages = append(document.Packages, modules[id])
	}
	return document.marshal()
}

func (d *spdxDocument) relate(element, how, related string) {
	d.Relationships = append(d.Relationships, spdxRelationship{element, how, related})
}

// marshal gives the document its namespace, which is made of its content, and returns it as indented JSON.
func (d spdxDocument) marshal() ([]byte, error) {
	content, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("SPDX document: %w", err)
	}
	digest := sha256.Sum256(content)
	d.Namespace = spdxNamespace + spdxID(d.Name) + "-" + hex.EncodeToString(digest[:16])
	if content, err = json.MarshalIndent(d, "", "  "); err != nil {
		return nil, fmt.Errorf("SPDX document: %w", err)
	}
	return append(content, '\n'), nil
}

// parts are the modules of a program and the standard library, sorted. The main module is one, unless it is only the frame that
// was written for the program of that name.
func parts(info *debug.BuildInfo, name string) []spdxPackage {
	goVersion := strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go")
	found := []spdxPackage{modulePackage("stdlib", goVersion, "")}
	modules := slices.Clone(info.Deps)
	if info.Main.Path != "" && info.Main.Path != name {
		modules = append(modules, &info.Main)
	}
	for _, module := range modules {
		switch by := module.Replace; {
		case by == nil:
			found = append(found, modulePackage(module.Path, module.Version, module.Sum))
		case by.Sum == "": // A directory: its path says nothing elsewhere, and its version is made up.
			found = append(found, modulePackage(module.Path, "(devel)", ""))
		default:
			found = append(found, modulePackage(by.Path, by.Version, by.Sum))
		}
	}
	slices.SortFunc(found, func(a, b spdxPackage) int { return cmp.Compare(a.ID, b.ID) })
	return found
}

// modulePackage describes a Go module. Its sum is a digest of the digests of its files, which SPDX has no algorithm for.
func modulePackage(path, version, sum string) spdxPackage {
	module := describe("SPDXRef-Module-"+spdxID(path)+"-"+spdxID(version), path, version)
	module.Purpose = "LIBRARY"
	if sum != "" {
		module.SourceInfo = "go.sum " + sum
	}
	// A module from a directory has no version that a package URL could name.
	if version != "" && version != "(devel)" {
		url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
		module.References = []spdxReference{{"PACKAGE-MANAGER", "purl", url}}
	}
	return module
}

func describe(id, name, version string) spdxPackage {
	return spdxPackage{
		ID: id, Name: name, Version: version, DownloadLocation: spdxNoAssertion,
		LicenseConcluded: spdxNoAssertion, LicenseDeclared: spdxNoAssertion, Copyright: spdxNoAssertion,
	}
}

// notInID is what an SPDX identifier may not hold.
var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func spdxID(text string) string { return notInID.ReplaceAllString(text, "-") }

func sha256Of(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}
