package openstack

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

func TestSourcesAreThoseThatAptKnows(t *testing.T) {
	// The notation of aptSources: address, release, component.
	said := `http://mirror.example/debian/|bookworm|main
http://mirror.example/debian/|bookworm-updates|main
http://mirror.example/debian/|bookworm|main
http://mirror.example/debian/|bookworm-backports|main
http://mirror.example/debian/|trixie|main
http://mirror.example/security/|bookworm-security|main
`
	want := []string{
		"deb http://mirror.example/debian/ bookworm main",
		"deb http://mirror.example/debian/ bookworm-updates main",
		"deb http://mirror.example/security/ bookworm-security main",
	}
	got, err := sourceLines(said)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := sourceLines("http://mirror.example/debian/|trixie|main\n"); err == nil || !strings.Contains(err.Error(), codename) {
		t.Errorf("without a source of the release: %v, want an error that names it", err)
	}
}

func TestHowFarAnInstallationIs(t *testing.T) {
	line := func(what string, times int) string { return strings.Repeat("\n"+what+" some-package (1.0) ...", times) }
	for output, want := range map[string]string{
		"I: running apt-get update...":                  "downloading",
		line("Unpacking", 30) + line("Setting up", 3):   "30 packages unpacked, 3 set up",
		line("Unpacking", 600) + line("Setting up", 99): "600 packages unpacked, 99 set up",
	} {
		if got := installed(output); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAMachineWithoutTheServicesIsNotStartedOn(t *testing.T) {
	_, err := Start(t.Context(), Options{CacheDir: t.TempDir()})
	var missing *MissingError
	if !errors.As(err, &missing) {
		t.Fatalf("got %v, want what is missing", err)
	}
	if !strings.Contains(err.Error(), "the packages of OpenStack") {
		t.Errorf("got %v", err)
	}
	if os.Getuid() == 0 && !strings.Contains(err.Error(), "make test-openstack") {
		t.Errorf("got %v, want what installs it", err)
	}
}

func TestTheCacheForgetsWhatWasNotUsedForLong(t *testing.T) {
	cache := t.TempDir()
	for name, age := range map[string]time.Duration{"root-old": 48 * time.Hour, "state-old": 48 * time.Hour, "root-new": 0, "other": 48 * time.Hour} {
		path := filepath.Join(cache, name)
		used := time.Now().Add(-age)
		if err := errors.Join(os.Mkdir(path, 0o755), os.Chtimes(path, used, used)); err != nil {
			t.Fatal(err)
		}
	}
	if err := prune(cache, time.Now().Add(-24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(cache, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{filepath.Join(cache, "other"), filepath.Join(cache, "root-new")}, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

func TestInstallIsThroughWhenAllIsThere(t *testing.T) {
	cache := t.TempDir()
	suffix, err := templateKey()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(rootOf(cache), 0o755), os.Mkdir(filepath.Join(cache, "state-"+key()+"-"+suffix), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := Install(t.Context(), Options{CacheDir: cache}); err != nil {
		t.Error(err)
	}
}

func TestConfigurationIsWritten(t *testing.T) {
	dir := t.TempDir()
	if err := writeState(dir); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]string{
		"keystone.conf":  {"connection = mysql+pymysql://root@localhost/keystone?unix_socket=/srv/cloud/run/mysql.sock&charset=utf8"},
		"nova.conf":      {"osapi_compute_listen_port = 8774", "transport_url = " + rabbitURL, "auth_url = http://127.0.0.1:5000/v3"},
		"nova-az-b.conf": {"host = az-b"},
		"octavia.conf":   {"endpoint = http://127.0.0.1:9696", "ovn_nb_connection = unix:/srv/cloud/ovn/nb.sock"},
		"serve.py":       {"waitress.serve("},
	} {
		content, err := os.ReadFile(filepath.Join(dir, "etc", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range want {
			if !strings.Contains(string(content), line) {
				t.Errorf("%s lacks %q", file, line)
			}
		}
		if strings.Contains(string(content), "{{") {
			t.Errorf("%s is not complete", file)
		}
	}
}

func TestADirectoryHoldsOneCloud(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, stateName), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, err := (Options{Dir: dir}).makeDir(); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v, want an error that names the directory", err)
	}
	if made, temporary, err := (Options{Dir: filepath.Join(dir, "new")}).makeDir(); err != nil || temporary || made != filepath.Join(dir, "new") {
		t.Errorf("a new directory: %s, temporary %t, %v", made, temporary, err)
	}
}

func TestATemplateHasNoSockets(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"kept", ".nb.db.~lock~"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(removeSockets(dir), copyState(t.Context(), dir, t.TempDir())); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "kept" {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := ensureTemplate(t.Context(), filepath.Join(dir, "absent", "cache"), progress.New(nil)); err == nil {
		t.Error("a state was made in a cache that is not there")
	}
}
