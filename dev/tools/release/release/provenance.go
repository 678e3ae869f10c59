package release

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/mooring-ccm/mooring/internal/tool/image"
	"github.com/mooring-ccm/mooring/internal/version"
)

// resource is a file or a source in the provenance.
type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

// provenance writes the digests by which image and chart are pulled, how the files were made, and the checksums of all. The statement
// is in-toto's v1 (github.com/in-toto/attestation, spec/v1/statement.md) with SLSA provenance v1 (slsa.dev/spec/v1.0/provenance).
// SLSA leaves open the time and the ID of the run, so the statement has neither: the same commit gives the same one. The builder is
// the person who ran this: that is SLSA level 1.
func (r *run) provenance(context.Context) error {
	if err := r.write(DigestsFile, fmt.Appendf(nil, "%s  %s\n%s  %s\n", r.digests.Image, Daemon, r.digests.Chart, chartName)); err != nil {
		return err
	}
	_, files, err := r.sums()
	if err != nil {
		return err
	}
	for _, pushed := range [][2]string{{Daemon, r.digests.Image}, {chartName, r.digests.Chart}} {
		files = append(files, resource{Name: "oci:" + pushed[0], Digest: map[string]string{"sha256": strings.TrimPrefix(pushed[1], "sha256:")}})
	}
	type object map[string]any
	text, err := json.MarshalIndent(object{
		"_type": "https://in-toto.io/Statement/v1", "subject": files, "predicateType": "https://slsa.dev/provenance/v1",
		"predicate": object{
			"buildDefinition": object{
				"buildType":          "https://" + version.Module + "/tree/main/dev/tools/release",
				"externalParameters": object{"version": r.Version},
				"internalParameters": object{"go": runtime.Version()},
				"resolvedDependencies": []resource{
					{URI: "git+https://" + version.Module, Digest: map[string]string{"gitCommit": r.Commit}},
					{Name: "root-certificates.pem", Digest: map[string]string{"sha256": r.certificatesSum}},
				},
			},
			"runDetails": object{"builder": object{"id": "https://" + version.Module + "/dev/tools/release"}},
		},
	}, "", "  ")
	if err != nil {
		return err
	}
	if err := r.write(ProvenanceFile, append(text, '\n')); err != nil {
		return err
	}
	sums, _, err := r.sums()
	if err != nil {
		return err
	}
	return r.write(SumsFile, []byte(sums))
}

// sums returns the checksums of all files that are there, sorted by name, as sha256sum writes them and as the provenance has them.
func (r *run) sums() (text string, files []resource, err error) {
	entries, err := os.ReadDir(r.Output)
	if err != nil {
		return "", nil, err
	}
	for _, entry := range entries {
		digest, err := image.SHA256(filepath.Join(r.Output, entry.Name()))
		if err != nil {
			return "", nil, err
		}
		text += digest + "  " + entry.Name() + "\n"
		files = append(files, resource{Name: entry.Name(), Digest: map[string]string{"sha256": digest}})
	}
	return text, files, nil
}

// readKey reads an ECDSA key in PEM, as PKCS #8 or as SEC 1. An empty name gives nil. An encrypted key, such as cosign's own, is an
// error that says what to do: this program asks for no passwords.
func readKey(file string) (*ecdsa.PrivateKey, error) {
	if file == "" {
		return nil, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("key %s: is no PEM file", file)
	}
	var parsed any
	switch block.Type {
	case "PRIVATE KEY":
		parsed, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		parsed, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		err = fmt.Errorf("holds a %s; make one by: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256", block.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", file, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("key %s: is of type %T, want an ECDSA key", file, parsed)
	}
	return key, nil
}

// sign writes a signature beside each file, with .sig behind its name. It signs the SHA-256 by ECDSA, in ASN.1 and base64, which cosign verify-blob
// and openssl read. It is the same each time (RFC 6979), to keep a release reproducible. A key of nil signs nothing.
func sign(folder string, key *ecdsa.PrivateKey, names ...string) error {
	if key == nil {
		return nil
	}
	var errs []error
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		digest := sha256.Sum256(content)
		signature, err := key.Sign(nil, digest[:], crypto.SHA256)
		if err != nil {
			return fmt.Errorf("sign %s: %w", name, err)
		}
		text := base64.StdEncoding.EncodeToString(signature) + "\n"
		errs = append(errs, os.WriteFile(filepath.Join(folder, name+".sig"), []byte(text), 0o644))
	}
	return errors.Join(errs...)
}
