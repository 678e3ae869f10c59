// Command chaos runs fault schedules: see dev/docs/chaos.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

const usage = `chaos runs fault schedules against the manager on a control plane of its own.

  chaos run --seed=7 --duration=10m     a schedule that is made from a seed
  chaos run --file=schedule.txt         a schedule that was kept
  chaos shrink --file=schedule.txt      the shortest part of a schedule that still fails
  chaos mutants [--only=NAME,NAME]      managers with a mistake each, which have to be found
  chaos soak --duration=30m             churn at 2,000 nodes and 500 Services; the managers may not grow`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	logf.SetLogger(logr.Discard()) // what clients of this process log is not what a run is about
	if err := execute(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

// execute carries one command out.
func execute(ctx context.Context, args []string) error {
	commands := map[string]func(context.Context, []string) error{"run": run, "shrink": shorten, "mutants": tryMutants, "soak": soak}
	if len(args) == 0 || commands[args[0]] == nil {
		return errors.New(usage)
	}
	return commands[args[0]](ctx, args[1:])
}
