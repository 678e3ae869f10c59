package main

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mooring-ccm/mooring/dev/docgen"
)

const referencePreface = `# Commands of mooring

<!-- Written by "go generate ./cmd/mooring" from the commands; do not edit. -->

The tool beside the daemon. Every command has ` + "`--help`" + `, and ` + "`mooring completion bash|zsh|fish|powershell`" + `
writes what a shell needs to complete commands and flags. Results go to standard output, progress and errors to standard error.
Colors are for terminals, and the variable ` + "`NO_COLOR`" + ` switches them off.

Exit codes, where a command does not say otherwise:

` + "```text\n" + usualExitCodes + "```" + `

## Flags of several commands

`

// usualExitCodes are how the help of most commands explains them.
const usualExitCodes = `  0    everything went well
  1    something failed; the last line on standard error says what
  2    the command line is wrong
  130  interrupted by a signal before it was through
`

var update = flag.Bool("update", false, "write the reference of the commands")

// The reference lists every command as --help shows it. go generate writes it by this test.
func TestReferenceIsCurrent(t *testing.T) {
	const file = "../../docs/reference/cli.md"
	if err := docgen.Put(file, referenceOf(newRoot()), !*update, "commands", "./cmd/mooring"); err != nil {
		t.Error(err)
	}
}

// referenceOf returns the reference as Markdown. Package cobra/doc would write a page for each command, whose links lead to pages of
// their own, and takes the texts of --help for Markdown, which makes one line of the exit codes; flags would be lines of any length.
func referenceOf(root *cobra.Command) []byte {
	var commands []*cobra.Command
	rows := map[string]int{}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, below := range cmd.Commands() {
			if !below.IsAvailableCommand() || below.Name() == "completion" || below.Name() == "help" {
				continue
			}
			if below.HasFlags() || !below.HasAvailableSubCommands() {
				commands = append(commands, below)
				visitFlags(below, func(flag *pflag.Flag) { rows[row(flag)]++ })
			}
			visit(below)
		}
	}
	visit(root)
	var text strings.Builder
	text.WriteString(referencePreface)
	for _, shared := range slices.Sorted(maps.Keys(rows)) {
		if rows[shared] > 1 {
			text.WriteString(shared)
		}
	}
	for _, cmd := range commands {
		writeCommand(&text, cmd, rows)
	}
	return []byte(text.String())
}

// writeCommand writes the section of a command. The rows of its flags that other commands have too are at the top of the page.
func writeCommand(text *strings.Builder, cmd *cobra.Command, rows map[string]int) {
	long := strings.TrimSuffix(strings.Replace(cmd.Long+"\n", usualExitCodes, "", 1), "\nExit codes:\n")
	fmt.Fprintf(text, "\n## %s\n\n%s.\n\n```text\n%s\n```\n", cmd.CommandPath(), cmd.Short, strings.TrimSpace(long))
	if cmd.Example != "" {
		fmt.Fprintf(text, "\nExamples:\n\n```console\n%s\n```\n", unindented(cmd.Example))
	}
	var own, shared []string
	visitFlags(cmd, func(flag *pflag.Flag) {
		if rows[row(flag)] > 1 {
			shared = append(shared, flagName(flag))
		} else {
			own = append(own, row(flag))
		}
	})
	if len(own) > 0 {
		text.WriteString("\n" + strings.Join(own, ""))
	}
	if len(shared) > 0 {
		fmt.Fprintf(text, "\nAlso %s.\n", strings.Join(shared, ", "))
	}
}

func visitFlags(cmd *cobra.Command, visit func(*pflag.Flag)) {
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden && flag.Name != "help" {
			visit(flag)
		}
	})
}

// row explains a flag.
func row(flag *pflag.Flag) string {
	return fmt.Sprintf("- %s%s: %s\n", flagName(flag), flagDefault(flag), meaning(flag))
}

// unindented removes the margin of two spaces that examples have in --help.
func unindented(example string) string {
	return strings.ReplaceAll(strings.TrimPrefix(example, "  "), "\n  ", "\n")
}

func flagName(flag *pflag.Flag) string {
	name, _ := pflag.UnquoteUsage(flag)
	text := "--" + flag.Name
	if flag.Shorthand != "" {
		text = "-" + flag.Shorthand + ", " + text
	}
	return "`" + strings.TrimSpace(text+" "+name) + "`"
}

func flagDefault(flag *pflag.Flag) string {
	switch flag.DefValue {
	case "", "[]", "false", "0s":
		return ""
	default:
		return ", default `" + flag.DefValue + "`"
	}
}

func meaning(flag *pflag.Flag) string {
	_, usage := pflag.UnquoteUsage(flag)
	return strings.Join(strings.Fields(usage), " ")
}
