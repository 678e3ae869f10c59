package image

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const (
	spdxDocumentID  = "DOCUMENT"
	spdxNoAssertion = "NOASSERTION"
	// spdxNamespace begins the URI that distinguishes documents. The specification asks for a unique one, not for one that answers.
	spdxNamespace = "https://github.com/mooring-ccm/mooring/spdx/"
)

// SBOM lists what programs were built from, as SPDX 2.3 JSON. It is made from what the Go linker wrote into the programs: each
// module with its version and its sum as in go.sum, and the Go release. A module that another one replaces is listed as that
// other one. A time of zero is the beginning of 1970. The same programs give the same bytes.
func SBOM(name, version string, created time.Time, programs []Program) ([]byte, error) {
	document := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: spdxDocumentID, DocumentName: name,
		CreationInfo: &spdx.CreationInfo{
			Created: orEpoch(created).Format(time.RFC3339), Creators: []common.Creator{{CreatorType: "Tool", Creator: "mooring-build"}},
		},
	}
	modules := map[common.ElementID]*spdx.Package{}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program.File)
		if err != nil {
			return nil, fmt.Errorf("modules of %s: %w", program.File, err)
		}
		digest, err := SHA256(program.File)
		if err != nil {
			return nil, err
		}
		root := describe("Program-"+spdxID(program.Platform.String()), name, version)
		root.PrimaryPackagePurpose, root.PackageSourceInfo = "APPLICATION", "built for "+program.Platform.String()
		root.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: digest}}
		document.Packages = append(document.Packages, root)
		relate(document, spdxDocumentID, common.TypeRelationshipDescribe, root.PackageSPDXIdentifier)
		for _, part := range parts(info, name) {
			modules[part.PackageSPDXIdentifier] = part
			relate(document, root.PackageSPDXIdentifier, common.TypeRelationshipDependsOn, part.PackageSPDXIdentifier)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(modules)) {
		document.Packages = append(document.Packages, modules[id])
	}
	return marshal(document)
}

func relate(d *spdx.Document, element common.ElementID, how string, related common.ElementID) {
	d.Relationships = append(d.Relationships, &spdx.Relationship{
		RefA: common.DocElementID{ElementRefID: element}, Relationship: how, RefB: common.DocElementID{ElementRefID: related},
	})
}

// marshal gives the document its namespace, which is made of its content, and returns it as indented JSON.
func marshal(d *spdx.Document) ([]byte, error) {
	var content bytes.Buffer
	if err := spdxjson.Write(d, &content); err != nil {
		return nil, fmt.Errorf("SPDX document: %w", err)
	}
	d.DocumentNamespace = fmt.Sprintf("%s%s-%.16x", spdxNamespace, spdxID(d.DocumentName), sha256.Sum256(content.Bytes()))
	content.Reset()
	if err := spdxjson.Write(d, &content, spdxjson.Indent("  ")); err != nil {
		return nil, fmt.Errorf("SPDX document: %w", err)
	}
	return content.Bytes(), nil
}

// parts are the modules of a program and the standard library, sorted. The main module is one, unless it is only the frame that
// was written for the program of that name.
func parts(info *debug.BuildInfo, name string) []*spdx.Package {
	goVersion := strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go")
	found := []*spdx.Package{modulePackage("stdlib", goVersion, "")}
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
	slices.SortFunc(found, func(a, b *spdx.Package) int { return cmp.Compare(a.PackageSPDXIdentifier, b.PackageSPDXIdentifier) })
	return found
}

// modulePackage describes a Go module. Its sum is a digest of the digests of its files, which SPDX has no algorithm for.
func modulePackage(path, version, sum string) *spdx.Package {
	module := describe("Module-"+spdxID(path)+"-"+spdxID(version), path, version)
	module.PrimaryPackagePurpose = "LIBRARY"
	if sum != "" {
		module.PackageSourceInfo = "go.sum " + sum
	}
	// A module from a directory has no version that a package URL could name.
	if version != "" && version != "(devel)" {
		url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
		module.PackageExternalReferences = []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: url,
		}}
	}
	return module
}

func describe(id, name, version string) *spdx.Package {
	return &spdx.Package{
		PackageSPDXIdentifier: common.ElementID(id), PackageName: name, PackageVersion: version,
		PackageDownloadLocation: spdxNoAssertion, PackageLicenseConcluded: spdxNoAssertion,
		PackageLicenseDeclared: spdxNoAssertion, PackageCopyrightText: spdxNoAssertion,
	}
}

// notInID is what an SPDX identifier may not hold.
var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func spdxID(text string) string { return notInID.ReplaceAllString(text, "-") }

// SHA256 returns the SHA-256 of a file in hexadecimal digits.
func SHA256(file string) (string, error) {
	opened, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("checksum: %w", err)
	}
	defer func() { _ = opened.Close() }()
	digest, _, err := v1.SHA256(opened)
	if err != nil {
		return "", fmt.Errorf("checksum of %s: %w", file, err)
	}
	return digest.Hex, nil
}
