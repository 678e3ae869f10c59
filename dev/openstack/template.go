package openstack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/mooring-ccm/mooring/dev/filelock"
	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

const (
	// records changes when a fresh cloud gets other records than before: users, flavors, networks.
	records = "1"
	// firstTimeout bounds the first start on a machine, which makes all tables. It takes a minute on two idle cores.
	firstTimeout = 15 * time.Minute
	// orderlyStop is how long a cloud may take to end whose databases are to be kept.
	orderlyStop = 30 * time.Second
)

// ensureTemplate returns the initial state of clouds: the state of a fresh cloud right after its start. It makes the state when it is absent.
func ensureTemplate(ctx context.Context, cache string, display *progress.Display) (string, error) {
	suffix, err := templateKey()
	if err != nil {
		return "", err
	}
	template := filepath.Join(cache, "state-"+key()+"-"+suffix)
	if _, err := os.Stat(template); err == nil {
		return template, errors.Join(touch(template), touch(rootOf(cache)))
	}
	unlock, err := filelock.Take(ctx, filepath.Join(cache, "lock"), display, "another first start of OpenStack")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(template); err == nil {
		return template, nil
	}
	// The lock is held, so what has this name is what an attempt that was killed or has failed left behind.
	unfinished := filepath.Join(cache, "unfinished-state")
	if err := os.RemoveAll(unfinished); err != nil {
		return "", err
	}
	if err := makeTemplate(ctx, rootOf(cache), unfinished, display); err != nil {
		return "", fmt.Errorf("logs in %s: %w", filepath.Join(unfinished, "logs"), err)
	}
	if err := os.Rename(filepath.Join(unfinished, stateName), template); err != nil {
		return "", err
	}
	return template, errors.Join(touch(template), os.RemoveAll(unfinished))
}

// templateKey changes with everything that a fresh cloud is made of, besides its packages.
func templateKey() (string, error) {
	digest := sha256.New()
	fmt.Fprintf(digest, "%s\n%q\n%q\n%q\n", records, zones, databases, serviceAuth)
	entries, err := files.ReadDir("files")
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		content, err := files.ReadFile("files/" + entry.Name())
		if err != nil {
			return "", err
		}
		fmt.Fprintf(digest, "%s %d\n%s", entry.Name(), len(content), content)
	}
	return hex.EncodeToString(digest.Sum(nil))[:12], nil
}

// makeTemplate starts a fresh cloud and stops it.
func makeTemplate(ctx context.Context, root, dir string, display *progress.Display) error {
	ctx, cancel := context.WithTimeoutCause(ctx, firstTimeout, fmt.Errorf("not ready within %s", firstTimeout))
	defer cancel()
	cloud, err := boot(ctx, root, dir, "", display)
	if err != nil {
		return err
	}
	if err := cloud.close(ctx, orderlyStop); err != nil {
		return err
	}
	// RabbitMQ starts faster on nothing, and sockets are not to be copied.
	state := filepath.Join(dir, stateName)
	return errors.Join(os.RemoveAll(filepath.Join(state, "rabbit")), os.RemoveAll(filepath.Join(state, "run")), removeSockets(state))
}

func removeSockets(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&(fs.ModeSocket|fs.ModeNamedPipe) == 0 && !strings.HasSuffix(path, ".~lock~") {
			return err
		}
		return os.Remove(path)
	})
}

// copyState copies a template. The program cp shares the blocks with the template where the file system can.
func copyState(ctx context.Context, template, state string) error {
	out, err := exec.CommandContext(ctx, "cp", "--archive", "--reflink=auto", template+"/.", state).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copy %s: %w: %s", template, err, out)
	}
	return nil
}
