package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/mooring-ccm/mooring/internal/demo"
	"github.com/spf13/cobra"
)

// The exit codes, as the help of every command says.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

const exitCodes = `Exit codes:
  0    everything went well
  1    something failed; the last line on standard error says what
  2    the command line is wrong
  130  interrupted by a signal before it was through`

// usageError is a command line that is wrong.
type usageError struct{ error }

// Unwrap returns what is wrong.
func (e usageError) Unwrap() error { return e.error }

// usage says that the command line of a command is wrong, and where to read what would be right.
func usage(cmd *cobra.Command, err error) error {
	return usageError{fmt.Errorf("%w\nSee '%s --help'", err, cmd.CommandPath())}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "mooring",
		Short: "See Mooring at work",
		Long: `mooring is the tool for people beside the daemon cloud-controller-manager.

` + exitCodes,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(usage)
	root.AddCommand(newDemo(), newSim(), newConformance())
	return root
}

// noArguments refuses arguments, and with them commands that do not exist.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	message := fmt.Sprintf("unknown argument %q for %q", args[0], cmd.CommandPath())
	for _, suggestion := range cmd.SuggestionsFor(args[0]) {
		message += fmt.Sprintf("; did you mean %q?", suggestion)
	}
	return usage(cmd, errors.New(message))
}

// execute runs a command and turns its error into a line and an exit code.
func execute(ctx context.Context, root *cobra.Command, stderr io.Writer) int {
	err := root.ExecuteContext(ctx)
	var wrong usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, demo.ErrInterrupted):
		fmt.Fprintln(stderr, "mooring: "+err.Error())
		return exitInterrupted
	case errors.As(err, &wrong):
		fmt.Fprintln(stderr, "mooring: "+err.Error())
		return exitUsage
	default:
		fmt.Fprintln(stderr, "mooring: "+err.Error())
		return exitFailed
	}
}
