// Command release writes the files of a release of this checkout. `make release VERSION=v0.1.0` calls it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mooring-ccm/mooring/dev/tools/release/release"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	options := release.Options{Progress: os.Stderr}
	flag.StringVar(&options.Version, "version", "", "version of the release, such as v0.1.0")
	flag.StringVar(&options.Root, "root", ".", "folder of the checkout")
	flag.StringVar(&options.Output, "output", "", "folder to write (default out/release/VERSION)")
	flag.StringVar(&options.Key, "key", "", "file of the private key that signs, in PEM; without one nothing is signed")
	flag.StringVar(&options.Certificates, "ca-certificates", "", "file of root certificates for the image (default this machine's)")
	dirty := flag.Bool("allow-dirty", false, "release files that differ from the commit too")
	flag.Parse()
	if options.Output == "" {
		options.Output = filepath.Join(options.Root, "out", "release", options.Version)
	}
	if err := readCommit(ctx, &options, *dirty); err != nil {
		return err
	}
	digests, err := release.Write(ctx, options)
	if err != nil {
		return err
	}
	fmt.Printf("release     %s\nimage       %s\nchart       %s\n", options.Output, digests.Image, digests.Chart)
	if options.Key == "" {
		fmt.Println("not signed: no key was given")
	}
	return nil
}

// readCommit asks git for the commit and its time. Only this checkout could reproduce a release of files that differ
// from it.
func readCommit(ctx context.Context, options *release.Options, dirty bool) error {
	git := func(args ...string) (string, error) {
		command := exec.CommandContext(ctx, "git", append([]string{"-C", options.Root}, args...)...)
		output, err := command.Output()
		if err != nil {
			return "", fmt.Errorf("git %s: %w", args[0], err)
		}
		return strings.TrimSpace(string(output)), nil
	}
	head, err := git("show", "--no-patch", "--format=%H %ct", "HEAD")
	if err != nil {
		return err
	}
	commit, seconds, _ := strings.Cut(head, " ")
	created, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("time of the commit: %w", err)
	}
	changed, err := git("status", "--porcelain")
	if err != nil {
		return err
	}
	options.Commit, options.Created = commit, time.Unix(created, 0).UTC()
	if changed == "" {
		return nil
	}
	options.Commit += "-dirty"
	if !dirty {
		return errors.New("files differ from the commit: commit them, or release with --allow-dirty what only this checkout can reproduce")
	}
	return nil
}
