// Command writes measures what each kind of write of a Node costs the API server, and prints a table of Markdown.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"

	"github.com/mooring-ccm/mooring/dev/bench/writes"
	"github.com/mooring-ccm/mooring/dev/localcluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	var options writes.Options
	flag.IntVar(&options.Nodes, "nodes", 1000, "How many nodes each kind of write is for.")
	flag.IntVar(&options.Images, "images", 0, "How many images each node has in its status.")
	flag.IntVar(&options.Rounds, "rounds", 3, "How often all kinds are measured. The table shows medians.")
	flag.Parse()
	binaries, err := localcluster.Build(ctx, localcluster.BuildOptions{Progress: os.Stderr})
	if err != nil {
		return err
	}
	cluster, err := localcluster.Start(ctx, localcluster.Options{Binaries: binaries})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop(context.WithoutCancel(ctx))) }()
	results, err := writes.Measure(ctx, cluster, options)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
	fmt.Fprintf(table, "| write\t| kind\t| API server\t| time\t|\n|---\t|---\t|---\t|---\t|\n")
	for _, r := range results {
		fmt.Fprintf(table, "| %s\t| %s\t| %.2f ms\t| %.2f ms\t|\n", r.Part, r.Kind, r.CPU.Seconds()*1000, r.Wall.Seconds()*1000)
	}
	return table.Flush()
}
