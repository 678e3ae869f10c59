// Command gobuild compiles packages of this module as go build does, and shows how far it is: a cold build of Kubernetes
// libraries takes minutes, and the go tool is silent meanwhile.
//
//	gobuild [-race] [-o DIR] PACKAGE...
//
// With -o, main packages are written to that directory under their own names, as they are shipped: small, and stamped with the version of the
// checkout. Without, the build cache is filled with what the packages and
// their tests need.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"syscall"

	"github.com/mooring-ccm/mooring/internal/tool/gobuild"
	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	race := flag.Bool("race", false, "compile with the race detector")
	output := flag.String("o", "", "the directory to write programs to")
	flag.Parse()
	if flag.NArg() == 0 {
		return fmt.Errorf("name at least one package, for example ./cmd/mooring")
	}
	var flags []string
	if *race {
		flags = append(flags, "-race")
	}
	display, linker := progress.New(os.Stderr), ""
	if *output != "" {
		linker = gobuild.Stamp(ctx, ".")
	}
	for _, name := range flag.Args() {
		options := gobuild.Options{Dir: ".", Package: name, Flags: flags, Display: display}
		if *output == "" {
			if err := gobuild.Fill(ctx, options); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(*output, 0o755); err != nil {
			return fmt.Errorf("creating the directory of -o: %w", err)
		}
		options.Flags = append(options.Flags, gobuild.Shipped(os.Getenv("GOFLAGS"), linker)...)
		options.Output = filepath.Join(*output, path.Base(name))
		if err := gobuild.Build(ctx, options); err != nil {
			return err
		}
	}
	return nil
}
