package release_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/tools/release/release"
)

const (
	root    = "../../../.."
	version = "v0.1.0-rc.1"
	commit  = "0123456789abcdef0123456789abcdef01234567"
)

// newKey writes a private key as openssl makes it, and its public half.
func newKey(t *testing.T) (private, public string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must.NoError(t, err)
	known, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	must.NoError(t, err)
	private, public = filepath.Join(t.TempDir(), "release.key"), filepath.Join(t.TempDir(), "release.pub")
	must.NoError(t, os.WriteFile(private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	must.NoError(t, os.WriteFile(public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: known}), 0o600))
	return private, public
}

// write releases the daemon for this machine alone, which is what there is time for in each change.
func write(t *testing.T, key string) (string, release.Digests) {
	t.Helper()
	output := filepath.Join(t.TempDir(), "out", version)
	digests, err := release.Write(t.Context(), release.Options{
		Root: root, Output: output, Version: version, Commit: commit, Created: time.Unix(1_700_000_000, 0), Key: key, Progress: os.Stderr,
		Programs: []release.Program{{Name: release.Daemon, Platforms: []string{"linux/" + runtime.GOARCH}}},
	})
	must.NoError(t, err)
	return output, digests
}

// TestRelease makes a release twice, compares all files, checks what they say, and installs from them.
func TestRelease(t *testing.T) {
	key, public := newKey(t)
	first, digests := write(t, key)
	second, again := write(t, key)
	if digests != again {
		t.Errorf("the digests differ: %v, %v", digests, again)
	}
	compare(t, first, second)
	t.Run("checksums", func(t *testing.T) { checkSums(t, first) })
	t.Run("signatures", func(t *testing.T) { checkSignatures(t, first, public) })
	t.Run("provenance", func(t *testing.T) { checkProvenance(t, first) })
	t.Run("program", func(t *testing.T) { checkProgram(t, first) })
	t.Run("install", func(t *testing.T) { install(t, first, digests) })
}

// compare holds the files of two folders against each other.
func compare(t *testing.T, first, second string) {
	t.Helper()
	entries, err := os.ReadDir(first)
	must.NoError(t, err)
	others, err := os.ReadDir(second)
	must.NoError(t, err)
	if len(entries) < 9 || len(entries) != len(others) {
		t.Errorf("there are %d and %d files", len(entries), len(others))
	}
	for _, entry := range entries {
		a, err := os.ReadFile(filepath.Join(first, entry.Name()))
		must.NoError(t, err)
		if b, err := os.ReadFile(filepath.Join(second, entry.Name())); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s is not the same: %v", entry.Name(), err)
		}
	}
}

// command runs a program in a folder and returns what it says.
func command(t *testing.T, folder, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, name, args...)
	run.Dir = folder
	output, err := run.CombinedOutput()
	return string(output), err
}

func checkSums(t *testing.T, folder string) {
	output, err := command(t, folder, "sha256sum", "--check", "--strict", release.SumsFile)
	if err != nil || strings.Count(output, ": OK") < 7 {
		t.Errorf("sha256sum: %v:\n%s", err, output)
	}
}

// checkSignatures verifies as the documentation says, with openssl and nothing else.
func checkSignatures(t *testing.T, folder, public string) {
	for _, name := range []string{release.SumsFile, release.ProvenanceFile} {
		text, err := os.ReadFile(filepath.Join(folder, name+".sig"))
		must.NoError(t, err)
		signature, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
		must.NoError(t, err)
		raw := filepath.Join(t.TempDir(), "raw")
		must.NoError(t, os.WriteFile(raw, signature, 0o600))
		verify := []string{"dgst", "-sha256", "-verify", public, "-signature", raw}
		if output, err := command(t, folder, "openssl", append(verify, name)...); err != nil {
			t.Errorf("%s: openssl: %v:\n%s", name, err, output)
		}
		if output, err := command(t, folder, "openssl", append(verify, release.DigestsFile)...); err == nil {
			t.Errorf("the signature of %s is one of another file too:\n%s", name, output)
		}
	}
}

// checkProvenance looks in the statement for every file that was there when it was made, and for the commit.
func checkProvenance(t *testing.T, folder string) {
	text, err := os.ReadFile(filepath.Join(folder, release.ProvenanceFile))
	must.NoError(t, err)
	var statement struct {
		Type    string `json:"_type"`
		Subject []struct {
			Name   string
			Digest map[string]string
		}
		PredicateType string
	}
	must.NoError(t, json.Unmarshal(text, &statement))
	if statement.Type != "https://in-toto.io/Statement/v1" || statement.PredicateType != "https://slsa.dev/provenance/v1" ||
		!bytes.Contains(text, []byte(`"gitCommit": "`+commit+`"`)) {
		t.Errorf("the statement is\n%s", text)
	}
	sums, err := os.ReadFile(filepath.Join(folder, release.SumsFile))
	must.NoError(t, err)
	named := 0
	for _, subject := range statement.Subject {
		if strings.Contains(string(sums), subject.Digest["sha256"]+"  "+subject.Name+"\n") {
			named++
		}
	}
	if want := strings.Count(string(sums), "\n") - 1; named != want { // all but the statement itself
		t.Errorf("the statement names %d of %d files", named, want)
	}
}

// checkProgram runs the program of the archive.
func checkProgram(t *testing.T, folder string) {
	into := t.TempDir()
	archive := filepath.Join(folder, release.Daemon+"-"+version+"-linux-"+runtime.GOARCH+".tar.gz")
	if output, err := command(t, into, "tar", "-xzf", archive); err != nil {
		t.Fatalf("tar: %v:\n%s", err, output)
	}
	output, err := command(t, into, "./"+release.Daemon, "--version")
	if err != nil || !strings.Contains(output, "+mooring-"+version) || !strings.Contains(output, "commit "+commit) {
		t.Errorf("--version: %v:\n%s", err, output)
	}
}

// TestBadOptionsAreNamed gives several wrong options at once.
func TestBadOptionsAreNamed(t *testing.T) {
	full := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(full, "old"), nil, 0o600))
	encrypted := filepath.Join(t.TempDir(), "cosign.key")
	block := &pem.Block{Type: "ENCRYPTED SIGSTORE PRIVATE KEY", Bytes: []byte("x")}
	must.NoError(t, os.WriteFile(encrypted, pem.EncodeToMemory(block), 0o600))
	_, err := release.Write(t.Context(), release.Options{Root: root, Output: full, Version: "0.1", Key: encrypted})
	if err == nil {
		t.Fatal("it is released")
	}
	for _, want := range []string{`version "0.1"`, "it is not empty", "holds a ENCRYPTED SIGSTORE PRIVATE KEY"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}

// TestReleaseNeedsFigures releases a version that nothing was measured for, with a program that cannot be built: the figures are
// looked for first.
func TestReleaseNeedsFigures(t *testing.T) {
	options := release.Options{
		Root: root, Version: "v99.0.0", Commit: commit, Progress: os.Stderr,
		Programs: []release.Program{{Name: release.Daemon, Platforms: []string{"no/platform"}}},
	}
	for version, missing := range map[string]bool{"v99.0.0": true, "v99.0.0-rc.1": false} {
		parent := t.TempDir()
		options.Version, options.Output = version, filepath.Join(parent, version)
		_, err := release.Write(t.Context(), options)
		if err == nil {
			t.Fatalf("%s is released", version)
		}
		for _, want := range []string{
			"docs/benchmarks/history/" + version + ".json: is not there", "`go -C dev/bench run ./cmd/report --release=" + version + "`",
		} {
			if strings.Contains(err.Error(), want) != missing {
				t.Errorf("%s: the error says %q: %t, want %t: %v", version, want, !missing, missing, err)
			}
		}
		if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
			t.Errorf("%s: %v are left, error %v", version, left, err)
		}
	}
}
