package stamp

import (
	"strings"
	"testing"
	"time"
)

func TestLinkerFlags(t *testing.T) {
	flags := Stamp{
		Release: "v0.1.0-3-g0123_x-dirty", Commit: "0123-dirty", Date: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC), Kubernetes: "v1.36.3",
	}.LinkerFlags()
	for _, want := range []string{
		"-X " + Module + "/internal/version.release=v0.1.0-3-g0123_x-dirty", "/internal/version.commit=0123-dirty",
		"/internal/version.date=2026-11-22T10:00:00Z", "-X k8s.io/component-base/version.gitVersion=v1.36.3+mooring-v0.1.0-3-g0123-x-dirty",
		"version.gitMajor=1", "version.gitMinor=36", "-X k8s.io/client-go/pkg/version.gitCommit=0123 ", "gitTreeState=dirty",
		"-X k8s.io/component-base/version.buildDate=2026-11-22T10:00:00Z",
	} {
		if !strings.Contains(flags+" ", want) {
			t.Errorf("no %q in %s", want, flags)
		}
	}
	if flags := (Stamp{Release: "v0.1.0"}).LinkerFlags(); strings.Contains(flags, "k8s.io") || strings.Contains(flags, "date") {
		t.Errorf("without libraries of Kubernetes and without a date: %s", flags)
	}
}

func TestKubernetes(t *testing.T) {
	for library, want := range map[string]string{"v0.36.3\n": "v1.36.3", "v1.2.3": "", "": ""} {
		if version := Kubernetes(library); version != want {
			t.Errorf("%q: %q, want %q", library, version, want)
		}
	}
}
