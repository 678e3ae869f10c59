// Command build-controlplane builds the control plane that tests and the demo run, so that a later start finds it in the
// cache. It prints the directory of the programs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/mooring-ccm/mooring/localcluster"
)

func main() {
	parts := flag.String("parts", "controlplane,node,client", "comma-separated parts to build")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, *parts); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, parts string) error {
	options := localcluster.BuildOptions{Progress: os.Stderr}
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
