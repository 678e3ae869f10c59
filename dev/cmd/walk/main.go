// Command walk prints how many functions of the core a Service passes until it has its address, and a node until it is initialized: what a reader has
// to follow. "A return" enters a file that was left already.
//
//	go run ./dev/cmd/walk
//
// It runs TestWalk of dev/virtual, with copies of the core's files in which each function reports that it is entered.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/mooring-ccm/mooring/dev/walk"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, ".", os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run measures the walks in a module, and writes what the test prints.
func run(ctx context.Context, module string, output io.Writer) error {
	module, err := filepath.Abs(module)
	if err != nil {
		return fmt.Errorf("looking for the module: %w", err)
	}
	copies, err := os.MkdirTemp("", "walk")
	if err != nil {
		return fmt.Errorf("making a folder for the copies: %w", err)
	}
	defer func() { _ = os.RemoveAll(copies) }()
	replaced, err := walk.Overlay(module, copies, "internal/controller", "internal/cloud", "internal/instances")
	if err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return fmt.Errorf("writing the overlay: %w", err)
	}
	file := filepath.Join(copies, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return fmt.Errorf("writing the overlay: %w", err)
	}
	test := exec.CommandContext(ctx, "go", "test", "-vet=off", "-count=1", "-tags", "walk", "-overlay", file, "-v", "-run", "^TestWalk$", "./dev/virtual")
	test.Dir, test.Stdout, test.Stderr = module, output, os.Stderr
	if err := test.Run(); err != nil {
		return fmt.Errorf("running TestWalk of dev/virtual: %w", err)
	}
	return nil
}
