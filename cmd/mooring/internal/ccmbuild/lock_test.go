package ccmbuild

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The first build writes what it was built from, and the next one keeps to it although there is a newer version.
func TestLock(t *testing.T) {
	served := modules{
		"example.com/far@v1.0.0": {"go.mod": goMod("example.com/far", contract, "require example.com/lib v1.0.0"), "p.go": registers("far", "old") + "\nvar _ = lib.Name\n"},
		"example.com/lib@v1.0.0": {"go.mod": goMod("example.com/lib"), "p.go": "package lib\n\nconst Name = 1\n"},
	}
	source := served["example.com/far@v1.0.0"]
	source["p.go"] = strings.Replace(source["p.go"], `"io"`, `"io"`+"\n\n\t"+`"example.com/lib"`, 1)
	isolate(t, served)
	s := newStand(t)
	o := s.options("example.com/far")
	o.Lock = "out/lock"
	if result := s.build(o); result.Lock != "out/lock" {
		t.Errorf("result %+v", result)
	}
	before, err := os.ReadFile(s.path("out/lock"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nexample.com/far v1.0.0 h1:", "\nexample.com/lib v1.0.0 h1:", "\n" + Module + " v0.0.0 => a-directory\n"} {
		if !strings.Contains(string(before), want) {
			t.Errorf("the lock does not say %q:\n%s", want, before)
		}
	}
	newer := map[string]string{"go.mod": goMod("example.com/far", contract), "p.go": registers("far", "new")}
	serve(t, strings.TrimPrefix(os.Getenv("GOPROXY"), "file://"), "example.com/far@v1.1.0", newer)
	if got := s.build(o).Providers; !slices.Equal(got, []string{"old"}) {
		t.Errorf("providers %v, want those of the version that is locked", got)
	}
	if after, err := os.ReadFile(s.path("out/lock")); err != nil || string(after) != string(before) {
		t.Errorf("the lock was changed: %v\n%s", err, after)
	}
	asked := s.options("example.com/far@v1.1.0")
	asked.Lock, asked.Output = o.Lock, "out/other"
	fails[*LockError](s, asked, "out/lock does not fit what is asked for; remove the file to choose versions anew:\n  example.com/far v1.1.0 h1:")

	write(t, s.path("out/lock"), strings.Replace(string(before), "example.com/lib v1.0.0 h1:", "example.com/lib v1.0.0 h1:AAAA", 1))
	if _, err := Build(t.Context(), o); err == nil || !strings.Contains(err.Error(), "checksum mismatch") {
		t.Errorf("a module with other content: %v", err)
	}
	write(t, s.path("out/lock"), "example.com/lib\n")
	if _, err := Build(t.Context(), o); err == nil || err.Error() != `lock out/lock: "example.com/lib" is no line of a lock` {
		t.Errorf("a lock that is none: %v", err)
	}
}

func TestLockIsReadAsItIsWritten(t *testing.T) {
	lock := Lock{
		{Path: "example.com/a", Version: "v1.0.0", Sum: "h1:a="},
		{Path: "example.com/b", Version: "v1.0.0", By: "example.com/c@v2.0.0", Sum: "h1:c="},
		{Path: "example.com/d", Version: "v0.0.0", By: byDirectory},
	}
	read, err := ParseLock(lock.String())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(lock, read); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"example.com/a v1.0.0 h1:a=", "example.com/c v2.0.0 h1:c="}, read.sums()); diff != "" {
		t.Errorf("sums (-want +got):\n%s", diff)
	}
	for _, line := range []string{"example.com/a v1.0.0", "example.com/a v1.0.0 h2:a=", "example.com/a v1.0.0 => b", "a b h1:c d"} {
		if _, err := ParseLock(line); err == nil {
			t.Errorf("%q is read", line)
		}
	}
}
