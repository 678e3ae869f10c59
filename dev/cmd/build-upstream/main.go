// Command build-upstream builds what Kubernetes' own end-to-end tests need, so a later test finds it in the cache. It prints the directory of
// the programs.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/mooring-ccm/mooring/dev/e2e/upstream/build"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	bin, err := build.Programs(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(bin)
}
