package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func open(t *testing.T, file string) *Source {
	t.Helper()
	opened, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	source, err := Open(opened)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// rewrite replaces a file in one moment, as the kubelet does it.
func rewrite(t *testing.T, file, text string) {
	t.Helper()
	if err := errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Rename(file+".new", file)); err != nil {
		t.Fatal(err)
	}
}

// A secret that has changed is taken without a restart; what is wrong, or decides which parts of the provider run, is not.
func TestSourceFollowsTheFile(t *testing.T) {
	file := write(t, "cloud.conf", minimal)
	source := open(t, file)
	look := func(text string) error {
		rewrite(t, file, text)
		return source.Reload(t.Context())
	}
	rotated := strings.Replace(minimal, "s3cr3t#1", "n3w", 1)
	err := look(rotated)
	if got := source.Current().Global.ApplicationCredentialSecret; got != "n3w" || err != nil {
		t.Errorf("the secret is %q, %v", got.Reveal(), err)
	}
	if err := look("[Global]\n"); source.Current().Global.Region != "RegionOne" || err == nil {
		t.Errorf("a broken file: %v", err)
	}
	if err := look(rotated + "[Route]\nrouter-id=r\n"); source.Current().Route.RouterID != "" || !strings.Contains(err.Error(), "[Route].router-id: Forbidden") {
		t.Errorf("a change of what runs: %v", err)
	}
	if err := look(rotated); err != nil {
		t.Error(err)
	}
}

// What a cloud.conf names is followed, too, also files that are not there yet.
func TestSourceFollowsWhatTheFileNames(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "home"))
	if err := os.MkdirAll("home/openstack", 0o700); err != nil {
		t.Fatal(err)
	}
	cloud := func(url, secret string) string {
		return "clouds: {only: {region_name: RegionOne, auth_type: v3applicationcredential, auth: {auth_url: " + url +
			", application_credential_id: a, application_credential_secret: " + secret + "}}}\n"
	}
	rewrite(t, "cloud.conf", "[Global]\nuse-clouds=true\n")
	rewrite(t, "home/openstack/clouds.yaml", cloud("https://one.example.com", "one"))
	source := open(t, "cloud.conf")
	for _, change := range []struct{ file, text, url, secret string }{
		{"home/openstack/clouds.yaml", cloud("https://two.example.com", "one"), "https://two.example.com", "one"},
		{"home/openstack/secure.yaml", "clouds: {only: {auth: {application_credential_secret: two}}}\n", "https://two.example.com", "two"},
		{"clouds.yaml", cloud("https://three.example.com", "three"), "https://three.example.com", "three"},
	} {
		rewrite(t, change.file, change.text)
		err := source.Reload(t.Context())
		if got := source.Current().Global; err != nil || got.AuthURL != change.url || got.ApplicationCredentialSecret.Reveal() != change.secret {
			t.Errorf("after a change of %s: %s with %q, %v; want %s with %q",
				change.file, got.AuthURL, got.ApplicationCredentialSecret.Reveal(), err, change.url, change.secret)
		}
	}
}

func TestRegionalIsTakenFromTheEnvironment(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "false": false, "": false} {
		t.Setenv(RegionalVariable, value)
		if got := mustParse(t, minimal).Regional; got != want {
			t.Errorf("%s=%q: regional %t", RegionalVariable, value, got)
		}
	}
}
