// Package flagdoc writes the reference of the command's flags from the flags themselves.
package flagdoc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mooring-ccm/mooring/internal/flagannotation"
)

const preface = `# Flags of cloud-controller-manager

<!-- Written by "go generate ./ccm" from the flags; do not edit. -->

Every flag of the reference cloud controller manager (` + "`k8s.io/cloud-provider`" + `) is here with its name, type, default and meaning. What
differs is listed first. A test compares both commands and fails on any other difference.
`

// Render returns the reference as Markdown.
func Render(flags *pflag.FlagSet) []byte {
	var text strings.Builder
	text.WriteString(preface)
	all := sorted(flags)
	writeDifferences(&text, all)
	for _, section := range sections(all) {
		fmt.Fprintf(&text, "\n## %s\n\n", section)
		for _, flag := range all {
			if annotation(flag, flagannotation.Section) == section {
				writeFlag(&text, flag)
			}
		}
	}
	return []byte(text.String())
}

// writeDifferences writes what an operator who comes from the reference has to know.
func writeDifferences(text *strings.Builder, all []*pflag.Flag) {
	text.WriteString("\n## What differs from the reference\n\nOther defaults:\n\n| flag | reference | here | why |\n|---|---|---|---|\n")
	for _, flag := range all {
		if reason := annotation(flag, flagannotation.Reason); reason != "" {
			fmt.Fprintf(text, "| `--%s` | `%s` | `%s` | %s |\n", flag.Name, annotation(flag, flagannotation.ReferenceDefault), flag.DefValue, reason)
		}
	}
	text.WriteString("\nFlags that the reference does not have:\n\n| flag | why |\n|---|---|\n")
	for _, flag := range all {
		if reason := annotation(flag, flagannotation.Added); reason != "" {
			fmt.Fprintf(text, "| `--%s` | %s |\n", flag.Name, reason)
		}
	}
	text.WriteString("\nThe same flags, but:\n\n| flag | difference |\n|---|---|\n")
	for _, flag := range all {
		if note := annotation(flag, flagannotation.Note); note != "" {
			fmt.Fprintf(text, "| `--%s` | %s |\n", flag.Name, note)
		}
	}
}

// writeFlag writes one flag as a list item.
func writeFlag(text *strings.Builder, flag *pflag.Flag) {
	fmt.Fprintf(text, "- `--%s` *%s*", flag.Name, flag.Value.Type())
	if flag.DefValue != "" {
		fmt.Fprintf(text, ", default `%s`", flag.DefValue)
	}
	if flag.Deprecated != "" {
		fmt.Fprintf(text, ", deprecated: %s", flag.Deprecated)
	}
	fmt.Fprintf(text, "\n\n  %s\n\n", strings.Join(strings.Fields(flag.Usage), " "))
}

// sorted returns all flags by name.
func sorted(flags *pflag.FlagSet) []*pflag.Flag {
	var all []*pflag.Flag
	flags.VisitAll(func(flag *pflag.Flag) { all = append(all, flag) })
	slices.SortFunc(all, func(a, b *pflag.Flag) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// sections returns the sections in alphabetical order.
func sections(all []*pflag.Flag) []string {
	var names []string
	for _, flag := range all {
		if name := annotation(flag, flagannotation.Section); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// annotation returns the value of an annotation, empty if the flag does not have it.
func annotation(flag *pflag.Flag, key string) string { return strings.Join(flag.Annotations[key], " ") }
