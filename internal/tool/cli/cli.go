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

// usageError is a command line that is wrong.
type usageError struct{ error }

// Unwrap returns what is wrong.
func (e usageError) Unwrap() error { return e.error }

// Usage marks an error as one of the command line of a command, and says where to read what would be right.
func Usage(cmd *cobra.Command, err error) error {
	return usageError{fmt.Errorf("%w\nSee '%s --help'", err, cmd.CommandPath())}
}

// interruptedError is an end before the work was done because a signal asked for it.
type interruptedError struct{ error }

// Unwrap returns what was interrupted.
func (e interruptedError) Unwrap() error { return e.error }

// Interrupted marks an error as the consequence of a signal.
func Interrupted(err error) error { return interruptedError{err} }

// unseenError is an end without an answer, because something could not be looked at.
type unseenError struct{ error }

// Unwrap returns what could not be looked at.
func (e unseenError) Unwrap() error { return e.error }

// Unseen marks an error as the end of a command that could not look at what it was to decide on. It ends with ExitUnseen.
func Unseen(err error) error { return unseenError{err} }

// saidError ends a command that has said what it found.
type saidError struct{ code int }

// Error is for tests; Execute does not write it.
func (e saidError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// Said returns an error that ends a command with an exit code. Nothing is written for it: the command has said what it found.
func Said(code int) error { return saidError{code} }

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
	var said saidError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &said):
		return said.code
	}
	_, _ = fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
	var wrong usageError
	var unseen unseenError
	var interrupted interruptedError
	switch {
	case errors.As(err, &interrupted):
		return ExitInterrupted
	case errors.As(err, &wrong):
		return ExitUsage
	case errors.As(err, &unseen):
		return ExitUnseen
	default:
		return ExitFailed
	}
}
