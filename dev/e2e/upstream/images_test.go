package upstream_test

import (
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/mooring-ccm/mooring/dev/e2e/worker"
	"github.com/mooring-ccm/mooring/dev/must"
)

// writeImages writes the images that Pods run into a folder.
func writeImages(t *testing.T, bin, dir string) {
	t.Helper()
	worker.Image{
		Reference: worker.PauseImage, Entrypoint: []string{"/pause"}, Files: map[string]string{"pause": filepath.Join(bin, "pause")},
	}.Write(t, filepath.Join(dir, "pause.tar"))
	agnhost(t, bin).Write(t, filepath.Join(dir, "agnhost.tar"))
}

// agnhost is the image that Kubernetes' tests run in Pods: a program of Kubernetes, and the tools by which the tests try connections.
func agnhost(t *testing.T, bin string) worker.Image {
	t.Helper()
	listed := must.Value(exec.CommandContext(t.Context(), filepath.Join(bin, "e2e.test"), "--list-images").Output())(t)
	named := regexp.MustCompile(`\S+/e2e-test-images/agnhost:\S+`).FindAllString(string(listed), -1)
	if len(named) == 0 {
		t.Fatalf("e2e.test lists no image of agnhost: %s", listed)
	}
	image := worker.Image{
		// The older ones are for tests of upgrades.
		Reference: slices.Max(named), Entrypoint: []string{"/agnhost"}, Command: []string{"pause"},
		Files: map[string]string{"agnhost": filepath.Join(bin, "agnhost")},
		Links: map[string]string{
			"bin": "usr/bin", "sbin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib", "agnhost-2": "agnhost",
			"usr/bin/sh": "bash", "usr/bin/nc": "nc.openbsd",
		},
		Texts: map[string]string{
			"etc/passwd": "root:x:0:0:root:/:/bin/sh\n", "etc/group": "root:x:0:\n", "etc/nsswitch.conf": "hosts: files dns\n",
			"etc/wgetrc": "tries = 1\n", // as the program of BusyBox does, which the image of Kubernetes has
		},
		Dirs: []string{"tmp", "uploads"},
	}
	for _, tool := range []string{"bash", "cat", "curl", "date", "grep", "hostname", "ls", "nc.openbsd", "rm", "seq", "sleep", "ss", "tail", "timeout", "wget"} {
		found := must.Value(exec.LookPath(tool))(t)
		image.Files["usr/bin/"+tool] = found
		output := must.Value(exec.CommandContext(t.Context(), "ldd", found).Output())(t)
		for _, library := range regexp.MustCompile(`/\S+`).FindAllString(string(output), -1) {
			image.Files["usr/lib/"+path.Base(library)] = library
		}
	}
	return image
}
