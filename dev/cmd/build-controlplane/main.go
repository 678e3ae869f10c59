// Command build-controlplane builds the control plane that tests and the demo run, so a later start finds it in the
// cache. It prints the directory of the programs.
//
//	build-controlplane [-parts PART,...] [-version VERSION]
//	build-controlplane -list
//
// With -list it prints the versions of Kubernetes that can be built, the oldest first.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/mooring-ccm/mooring/dev/localcluster"
)

func main() {
	parts := flag.String("parts", "controlplane,node,client", "comma-separated parts to build")
	version := flag.String("version", "", "version of Kubernetes to build, for example 1.35; empty: what "+localcluster.VersionVariable+" says, or else the default")
	list := flag.Bool("list", false, "print the versions that can be built, the oldest first, and build nothing")
	flag.Parse()
	if *list {
		fmt.Println(strings.Join(localcluster.Versions(), "\n"))
		return
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, *parts, *version); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, parts, version string) error {
	options := localcluster.BuildOptions{Progress: os.Stderr, Version: version}
	for name := range strings.SplitSeq(parts, ",") {
		options.Parts = append(options.Parts, localcluster.Part(strings.TrimSpace(name)))
	}
	binaries, err := localcluster.Build(ctx, options)
	if err != nil {
		return err
	}
	fmt.Println(binaries.Dir())
	return nil
}
