package main

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/dev/programtest"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
)

// tiny is the provider that the guide for authors ends with: a module of its own, which is not linked into this test.
const tiny = "../../examples/provider/tiny"

// compilePatience bounds a build for which all of Kubernetes' libraries may have to be compiled first.
const compilePatience = 15 * time.Minute

// TestBuild builds the daemon with a provider from outside, as a program and as an image, and runs both.
func TestBuild(t *testing.T) {
	if testing.Short() {
		t.Skip("links programs, which -short leaves out")
	}
	dir := t.TempDir()
	program, tarball := filepath.Join(dir, "tiny-ccm"), filepath.Join(dir, "tiny-ccm.tar")
	p := programtest.Start(t, "build", "--with="+tiny, "-o", program, "--image="+tarball)
	if code := p.ExitWithin(compilePatience); code != cli.ExitOK {
		t.Fatalf("exit code %d", code)
	}
	p.LeavesNoFile()
	said := p.Text()
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Mooring: the sources in " + checkout, "root certificates: ", "program     " + program,
		"image       " + tarball + "  sha256:", "providers   tiny", "Kubernetes v1.37.",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	if strings.ContainsAny(said, "\x1b\r") {
		t.Errorf("control sequences of a terminal on a pipe: %q", said)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	packed := inImage(t, tarball, "usr/local/bin/cloud-controller-manager")
	if !bytes.Equal(content, packed) {
		t.Errorf("the program in the image has %d bytes, and is not the one of %d beside it", len(packed), len(content))
	}
	fromImage := filepath.Join(dir, "from-image")
	if err := os.WriteFile(fromImage, packed, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"--version"}, "Kubernetes v1.37.", 0},
		{[]string{"--version"}, "+mooring-", 0},
		{[]string{"--help"}, "--cloud-provider", 0},
		{[]string{"--cloud-provider=fog"}, "this program has tiny", 1},
	} {
		command := exec.CommandContext(t.Context(), fromImage, c.args...)
		command.Env = []string{} // nothing of this machine is in a container
		output, _ := command.CombinedOutput()
		if !strings.Contains(string(output), c.want) || command.ProcessState.ExitCode() != c.code {
			t.Errorf("%v: exit code %d, want %d and %q:\n%.500s", c.args, command.ProcessState.ExitCode(), c.code, c.want, output)
		}
	}
}

// TestBuildTool builds the tool with a provider from outside: that provider can be held to the rules by it.
func TestBuildTool(t *testing.T) {
	if testing.Short() {
		t.Skip("links programs, which -short leaves out")
	}
	program := filepath.Join(t.TempDir(), "mooring-tiny")
	if code, _, stderr := programtest.Call(t, newRoot(), "build", "--with="+tiny, "--tool", "-o", program); code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	config := write(t, "")
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"conformance", "--list"}, "routes-name-ignored", cli.ExitOK},
		{[]string{"conformance", "--cloud-provider=sim"}, `"sim": not in this program`, cli.ExitUsage},
		{[]string{"conformance", "--cloud-provider=tiny", "--cloud-config=" + config}, `cloud provider "tiny"`, cli.ExitFailed},
	} {
		command := exec.CommandContext(t.Context(), program, c.args...)
		output, _ := command.CombinedOutput()
		if !strings.Contains(string(output), c.want) || command.ProcessState.ExitCode() != c.code {
			t.Errorf("%v: exit code %d, want %d and %q:\n%s", c.args, command.ProcessState.ExitCode(), c.code, c.want, output)
		}
	}
}

// inImage returns a file of the only image in a tarball.
func inImage(t *testing.T, tarball, name string) []byte {
	t.Helper()
	dir := t.TempDir()
	if output, err := exec.CommandContext(t.Context(), "tar", "-xf", tarball, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("index %+v, %v", manifest, err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	in := mutate.Extract(image)
	defer func() { _ = in.Close() }()
	packed := tar.NewReader(in)
	for {
		header, err := packed.Next()
		if err != nil {
			t.Fatalf("looking for %s in the image: %v", name, err)
		}
		if header.Name != name {
			continue
		}
		content, err := io.ReadAll(packed)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
}

// TestBuildInterrupted ends a build while a compiler runs.
func TestBuildInterrupted(t *testing.T) {
	const data = "../../cmd/mooring/internal/ccmbuild/testdata"
	dir := t.TempDir()
	begun, output := filepath.Join(dir, "begun"), filepath.Join(dir, "program")
	compiler := filepath.Join(dir, "compiler")
	if err := os.WriteFile(compiler, []byte("#!/bin/sh\n: > "+begun+"\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := programtest.Prepare(t, "build", "--with="+data+"/mycloud/sub", "--replace=github.com/mooring-ccm/mooring="+data+"/mooring",
		"--replace=k8s.io/cloud-provider="+data+"/cloud-provider", "-o", output)
	p.Command.Env = append(p.Command.Env, "GOFLAGS=-toolexec="+compiler, "GOCACHE="+filepath.Join(p.Temp, "cache"), "GOPROXY=off")
	p.Command.Stdout, p.Command.Stderr = p, p
	p.Launch()
	poll.Within(t, programtest.Patience, "a compiler runs", func(context.Context) error { _, err := os.Stat(begun); return err })
	p.Signal(syscall.SIGINT)
	if code := p.Exit(); code != cli.ExitInterrupted {
		t.Errorf("exit code %d, want %d", code, cli.ExitInterrupted)
	}
	p.Await("mooring: interrupted")
	p.LeavesNoProcess()
	for _, pattern := range []string{p.Temp + "/mooring-build-*", p.Temp + "/go-build*", dir + "/.mooring-build-*", output} {
		if left, err := filepath.Glob(pattern); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
	}
}

func TestBuildCommandLinesThatAreWrong(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"nothing": {nil, []string{"--with: required"}},
		"all at once": {
			[]string{"--with=mycloud", "--replace=x", "--platform=linux", "--label=x", "--ca-certificates=x"},
			[]string{`--with: "mycloud"`, `--replace: "x"`, `--platform: "linux"`, `--label: "x"`, "they go with --image"},
		},
		"tool of nothing":       {[]string{"--tool", "--image=x.tar"}, []string{"--with: required"}},
		"two programs":          {[]string{"--with=./x", "--platform=linux/amd64,linux/arm64"}, []string{"several platforms go into"}},
		"an image for macs":     {[]string{"--with=./x", "--image=x.tar", "--platform=darwin/arm64"}, []string{"an image is for linux"}},
		"C in an image":         {[]string{"--with=./x", "--image=x.tar", "--cgo"}, []string{"an image has no C library"}},
		"a factory of nothing":  {[]string{"--image=x.tar", "--factory=mycloud=New"}, []string{"--factory: its package has to be one that --with names"}},
		"no function":           {[]string{"--with=./x", "--factory=mycloud"}, []string{`--factory: "mycloud": must be PROVIDER=FUNCTION`}},
		"sources and a program": {[]string{"--with=./x", "--write-main=x", "-o", "y"}, []string{"--write-main: it writes sources and builds nothing"}},
		"one file for both":     {[]string{"--with=./x", "--image=x.tar", "-o", "x.tar"}, []string{"both are x.tar"}},
		"push of nothing":       {[]string{"--with=./x", "--push"}, []string{"--push: it goes with --image and --image-name"}},
		"push to nowhere":       {[]string{"--image=x.tar", "--image-name=ccm:v1", "--push"}, []string{"--image-name must be REGISTRY/NAME:TAG"}},
	} {
		code, _, stderr := programtest.Call(t, newRoot(), append([]string{"build"}, c.args...)...)
		if code != cli.ExitUsage {
			t.Errorf("%s: exit code %d, want %d", name, code, cli.ExitUsage)
		}
		for _, want := range c.want {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s: the error does not say %q:\n%s", name, want, stderr)
			}
		}
	}
	if code, _, stderr := programtest.Call(t, newRoot(), "build", "--with=./nowhere"); code == cli.ExitOK || !strings.Contains(stderr, "nowhere") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	code, _, stderr := programtest.Call(t, newRoot(), "build", "--with=./x")
	if code != cli.ExitUsage || !strings.Contains(stderr, `SOURCE_DATE_EPOCH: "yesterday"`) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
