package main

import (
	"flag"
	"fmt"
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
	var text strings.Builder
	text.WriteString(referencePreface)
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, below := range cmd.Commands() {
			if !below.IsAvailableCommand() || below.Name() == "completion" || below.Name() == "help" {
				continue
			}
			if below.HasFlags() || !below.HasAvailableSubCommands() {
				writeCommand(&text, below)
			}
			visit(below)
		}
	}
	visit(root)
	return []byte(text.String())
}

func writeCommand(text *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(text, "\n## %s\n\n%s.\n\n```text\n%s\n```\n", cmd.CommandPath(), cmd.Short, cmd.Long)
	if cmd.Example != "" {
		fmt.Fprintf(text, "\nExamples:\n\n```console\n%s\n```\n", unindented(cmd.Example))
	}
	flags := false
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || flag.Name == "help" {
			return
		}
		if !flags {
			flags = true
			text.WriteString("\n| flag | default | meaning |\n|---|---|---|\n")
		}
		fmt.Fprintf(text, "| %s | %s | %s |\n", flagName(flag), flagDefault(flag), meaning(flag))
	})
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
	return "`" + strings.ReplaceAll(strings.TrimSpace(text+" "+name), "|", `\|`) + "`"
}

func flagDefault(flag *pflag.Flag) string {
	switch flag.DefValue {
	case "", "[]", "false", "0s":
		return ""
	default:
		return "`" + flag.DefValue + "`"
	}
}

func meaning(flag *pflag.Flag) string {
	_, usage := pflag.UnquoteUsage(flag)
	return strings.ReplaceAll(strings.Join(strings.Fields(usage), " "), "|", `\|`)
}
