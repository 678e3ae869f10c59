// Command mooring is the tool for people: it shows Mooring at work, serves the simulated cloud and checks providers.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run()) }

// run returns the exit code. A second signal ends the process at once: the first one asked it to stop in order.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop)
	return execute(ctx, newRoot(), os.Stderr)
}
