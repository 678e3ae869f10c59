// Package cli is what the commands of the tool share: a root that explains mistakes, exit codes and their errors, signals, and a line of progress for
// a waiting user.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mooring-ccm/mooring/internal/version"
)

// The exit codes, as the help of every command says.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitUnseen      = 2
	ExitDiffers     = 3
	ExitInterrupted = 130
)

// ExitCodes is the paragraph on exit codes that ends the help of every command.
const ExitCodes = `Exit codes:
  0    everything went well
  1    something failed; the last line on standard error says what
  2    the command line is wrong
  130  interrupted by a signal before it was through`

// NewGroup returns a command that has only commands below it: without one it shows its help.
func NewGroup(name, short, long string) *cobra.Command {
	group := &cobra.Command{
		Use: name, Short: short, Long: long,
		SilenceUsage: true, SilenceErrors: true,
		Args: NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	group.SetFlagErrorFunc(Usage)
	return group
}

// NewRoot returns the command of a program: a group with the flag --version.
func NewRoot(name, short, long string) *cobra.Command {
	root := NewGroup(name, short, long)
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		if cmd.Name() == cobra.ShellCompRequestCmd {
			describeFlags(root)
		}
	}
	// Not cobra's own flag: its template calls methods by name, for which the linker keeps every exported method of every library.
	shown := root.Flags().BoolP("version", "v", false, "version for "+name)
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if !*shown {
			return cmd.Help()
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Get().String())
		return err
	}
	return root
}

// describeFlags has shells show the texts of flags without the quotes that mark the name of a value for --help.
func describeFlags(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(flag *pflag.Flag) { flag.Usage = strings.ReplaceAll(flag.Usage, "`", "") })
	for _, below := range cmd.Commands() {
		describeFlags(below)
	}
}

// Run executes a command until it ends or a signal does, and returns the exit code. A second signal ends the process at once: the
// first one asked it to stop in order.
func Run(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop)
	return Execute(ctx, root, os.Stderr)
}

// exitError ends a command with an exit code.
type exitError struct {
	error
	code int
	// said says that the command has said what it found: nothing more is written.
	said bool
}

// Unwrap returns why the command ends.
func (e exitError) Unwrap() error { return e.error }

// Usage marks an error as one of the command line of a command, and says where to read what would be right.
func Usage(cmd *cobra.Command, err error) error {
	return exitError{error: fmt.Errorf("%w\nSee '%s --help'", err, cmd.CommandPath()), code: ExitUsage}
}

// Interrupted marks an error as the consequence of a signal, before the work was done.
func Interrupted(err error) error { return exitError{error: err, code: ExitInterrupted} }

// Unseen marks an error as the end of a command that could not look at what it was to decide on. It ends with ExitUnseen.
func Unseen(err error) error { return exitError{error: err, code: ExitUnseen} }

// Said returns an error that ends a command with an exit code. Nothing is written for it: the command has said what it found.
func Said(code int) error {
	return exitError{error: fmt.Errorf("exit code %d", code), code: code, said: true}
}

// suggestionDistance is by how many letters a mistyped command may differ from the one that is suggested; it is cobra's own.
const suggestionDistance = 2

// NoArguments refuses arguments, and with them commands that do not exist.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	message := fmt.Sprintf("unknown argument %q for %q", args[0], cmd.CommandPath())
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = suggestionDistance // cobra sets it for its own messages only
	}
	for _, suggestion := range cmd.SuggestionsFor(args[0]) {
		message += fmt.Sprintf("; did you mean %q?", suggestion)
	}
	return Usage(cmd, errors.New(message))
}

// Execute runs a command and turns its error into a line and an exit code.
func Execute(ctx context.Context, root *cobra.Command, stderr io.Writer) int {
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	ended := exitError{code: ExitFailed}
	if errors.As(err, &ended); !ended.said {
		_, _ = fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
	}
	return ended.code
}
