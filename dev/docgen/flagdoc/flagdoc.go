// Package flagdoc writes the reference of the command's flags from the flags themselves.
package flagdoc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

const preface = `# Flags of cloud-controller-manager

<!-- Written by "go generate ./ccm" from the flags; do not edit. -->

Every flag of the reference cloud controller manager (` + "`k8s.io/cloud-provider`" + `) is here with its name, type, default and meaning. A
test compares both commands and fails on any difference that this page does not show. Flags that neither differ nor are new are the reference's;
` + "`--help`" + ` has more about them.

## What differs from the reference
`

// libraries are the sections whose flags come with the libraries of Kubernetes. Their help is long, and other programs have the same.
var libraries = []string{"authentication", "authorization", "debugging", "global", "leader-migration", "secure serving", "webhook", "webhook serving"}

// gates is where the help of --feature-gates begins to list gates, which are those of all libraries.
const gates = " Options are:"

// Render returns the reference as Markdown.
func Render(flags *pflag.FlagSet) []byte {
	var text strings.Builder
	text.WriteString(preface)
	all := sorted(flags)
	defaults := OtherDefaults()
	for _, flag := range all {
		if other, found := defaults[flag.Name]; found {
			fmt.Fprintf(&text, "\n`--%s` has the default `%s`, and in the reference `%s`. %s.\n", flag.Name, flag.DefValue, other.Reference, other.Reason)
		}
	}
	text.WriteString("\nOther flags that work differently are marked **Differs**, and flags that the reference lacks **New**. The [migration " +
		"table](migration-table.md#flags) lists both.\n")
	for _, section := range sections(all) {
		if !slices.Contains(libraries, section) {
			fmt.Fprintf(&text, "\n## %s\n\n", section)
			for _, flag := range all {
				if sectionOf(flag) == section {
					writeFlag(&text, flag)
				}
			}
		}
	}
	writeLibraries(&text, all)
	return []byte(text.String())
}

// writeFlag writes one flag as a list item.
func writeFlag(text *strings.Builder, flag *pflag.Flag) {
	usage, _, cut := strings.Cut(strings.Join(strings.Fields(flag.Usage), " "), gates)
	why, added := reasonFor(flag.Name)
	if !added && flag.Name != "controllers" {
		usage, _, _ = strings.Cut(usage, ". ")
	}
	if cut {
		usage = strings.TrimSuffix(usage, ".") + "."
		usage += " `--help` lists them."
	}
	fmt.Fprintf(text, "- %s: %s", declaration(flag), usage)
	if !strings.HasSuffix(usage, ".") {
		text.WriteString(".")
	}
	if note := Notes()[flag.Name]; note != "" {
		fmt.Fprintf(text, "\n  **Differs**: %s.", note)
	}
	if why != "" {
		fmt.Fprintf(text, "\n  **New**: %s.", why)
	} else if added {
		text.WriteString(" **New**.")
	}
	text.WriteString("\n")
}

// writeLibraries names the flags of Kubernetes' libraries.
func writeLibraries(text *strings.Builder, all []*pflag.Flag) {
	text.WriteString("\n## Flags of Kubernetes' libraries\n\nOther components have these too. `--help` and the [reference of " +
		"kube-controller-manager](https://kubernetes.io/docs/reference/command-line-tools-reference/kube-controller-manager/)\nsay " +
		"what they mean.\n\n")
	for _, flag := range all {
		if slices.Contains(libraries, sectionOf(flag)) {
			fmt.Fprintf(text, "- %s", declaration(flag))
			if note := Notes()[flag.Name]; note != "" {
				fmt.Fprintf(text, ". **Differs**: %s.", note)
			}
			text.WriteString("\n")
		}
	}
}

// declaration is the name of a flag with its type and default.
func declaration(flag *pflag.Flag) string {
	text := fmt.Sprintf("`--%s` *%s*", flag.Name, flag.Value.Type())
	if flag.DefValue != "" {
		text += fmt.Sprintf(", default `%s`", flag.DefValue)
	}
	if flag.Deprecated != "" {
		text += ", deprecated"
	}
	return text
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
		if name := sectionOf(flag); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// sectionOf returns the heading under which --help shows a flag, as the command says.
func sectionOf(flag *pflag.Flag) string {
	return strings.Join(flag.Annotations["mooring.dev/section"], " ")
}
