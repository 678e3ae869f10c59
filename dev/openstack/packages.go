package openstack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// codename is the release of Debian that the configuration of the services is written for: its OpenStack is the release Zed.
const codename = "bookworm"

// packages are installed with what they depend on. The packages of the services proper are not among them: those add users, units and
// questions to the administrator to what python3-* has already.
var packages = []string{
	"python3-keystone", "python3-placement", "python3-glance", "python3-nova", "python3-neutron", "python3-octavia",
	"python3-ovn-octavia-provider", "python3-pymysql",
	"mariadb-server-core", "mariadb-client-core", "rabbitmq-server", "ovn-central", "openssl", "mount",
}

// unpacked are those packages of services that have files which are needed: start scripts, and how requests pass through a service.
var unpacked = []string{
	"nova-common", "nova-api", "nova-compute", "nova-conductor", "nova-scheduler", "neutron-common", "glance-common", "glance-api",
}

// unwanted are the paths within packages that no service reads.
var unwanted = []string{"/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/icons/*"}

// trimmed are the files below Python's dist-packages that are removed once all is installed: tests, and what comes along with dependencies
// that no service here uses. They are a quarter of all.
var trimmed = []string{"*/tests", "botocore/data", "mypy", "mypyc", "*__mypyc*.so", "pip", "openstackclient"}

// layout changes when Install does something else with the same packages.
const layout = "1"

// rootOf returns the root directory of the services. Its name has a key that changes with what is installed.
func rootOf(cache string) string { return filepath.Join(cache, "root-"+key()) }

func key() string {
	digest := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%q\n%q\n%q\n%q", layout, codename, packages, unpacked, unwanted, trimmed))
	return hex.EncodeToString(digest[:])[:12]
}

// aptSources returns the sources of this machine that have the packages, as lines of sources.list: what apt itself says of them, whichever
// files and notations they are configured in.
func aptSources(ctx context.Context) ([]string, error) {
	const format = `$(REPO_URI)|$(RELEASE)|$(COMPONENT)`
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", format, "Created-By: Packages", "Origin: Debian").Output()
	if err != nil {
		return nil, fmt.Errorf("ask apt for its sources: %w", err)
	}
	return sourceLines(string(out))
}

// sourceLines turns what apt says of its sources into lines of sources.list, without doubles.
func sourceLines(targets string) ([]string, error) {
	var lines []string
	for target := range strings.Lines(targets) {
		fields := strings.Split(strings.TrimSpace(target), "|")
		if len(fields) != 3 || !strings.HasPrefix(fields[1], codename) || strings.Contains(fields[1], "backports") {
			continue
		}
		line := fmt.Sprintf("deb %s %s %s", fields[0], fields[1], fields[2])
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("apt knows no source of Debian 12 (%s): add one to /etc/apt/sources.list.d, run apt-get update, or set Options.Sources", codename)
	}
	return lines, nil
}
