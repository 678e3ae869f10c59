package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
)

// buildDeadline bounds a build from nothing, downloads included, on a slow machine.
const buildDeadline = time.Hour

// daemonName is the name of the daemon's program.
const daemonName = "cloud-controller-manager"

// prepare builds what is not built yet.
func prepare() section {
	return section{name: "prepare", title: "Programs", steps: []step{
		{
			name: "control-plane", title: "etcd, kube-apiserver and kube-controller-manager are built", deadline: buildDeadline,
			run: buildControlPlane,
		},
		{name: "daemon", title: "the daemon cloud-controller-manager is built", deadline: buildDeadline, run: findDaemon},
	}}
}

func buildControlPlane(ctx context.Context, s *environment) (detail string, err error) {
	s.binaries, err = localcluster.Build(ctx, localcluster.BuildOptions{Progress: s.progress()})
	if err != nil {
		return "", err
	}
	return "Kubernetes " + s.binaries.Version(), nil
}

// findDaemon takes the daemon that was asked for, or the one beside this program, or builds it.
func findDaemon(ctx context.Context, s *environment) (string, error) {
	if s.options.Daemon != "" {
		path, err := exec.LookPath(s.options.Daemon)
		if err != nil {
			return "", fmt.Errorf("--daemon: %w", err)
		}
		s.daemon, err = filepath.Abs(path)
		return s.daemon, err
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	beside := filepath.Join(filepath.Dir(self), daemonName)
	if _, err := os.Stat(beside); err == nil {
		s.daemon = beside
		return beside, nil
	}
	return s.buildDaemon(ctx)
}

func (s *environment) buildDaemon(ctx context.Context) (string, error) {
	output, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Path}} {{.Dir}}").Output()
	module, root, _ := strings.Cut(strings.TrimSpace(string(output)), " ")
	if err != nil || module != "github.com/mooring-ccm/mooring" {
		return "", errors.Join(fmt.Errorf("there is no %s beside this program, and this is no checkout to build it from: "+
			"run make build, or say where it is with --daemon", daemonName), err)
	}
	s.daemon = s.path("bin", daemonName)
	return "built from " + root, harness.BuildDaemon(ctx, s.daemon, s.progress())
}

// progress is a writer whose lines say how far the current step is.
func (s *environment) progress() *progressLines { return &progressLines{say: s.say} }

type progressLines struct {
	say  func(format string, args ...any)
	rest []byte
}

// Write takes whole lines and keeps what is left for the next call.
func (p *progressLines) Write(data []byte) (int, error) {
	p.rest = append(p.rest, data...)
	for {
		line, rest, found := bytes.Cut(p.rest, []byte("\n"))
		if !found {
			return len(data), nil
		}
		p.rest = rest
		if text := strings.TrimSpace(string(line)); text != "" {
			p.say("%s", text)
		}
	}
}
