package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
)

// width is where lines of the page are broken.
const width = 132

// introduction is the part of the page that is not read off the programs.
//
//go:embed introduction.md
var introduction string

// render writes the page.
func render(flags flagTable, metrics []row) []byte {
	var page bytes.Buffer
	page.WriteString(introduction)
	page.WriteString("\n## Flags\n\nAll of the reference's flags are here, with name and type. These differ, and [Flags](flags.md) says how:\n\n" +
		listed(flags.differs) + "\n\nAll others are the same, default and meaning included. These are not in the reference; take them out again on the way back:\n\n" +
		listed(flags.added) + "\n")
	page.WriteString("\n## Metrics\n\nThe metrics that the reference's controllers declare. Metrics of libraries (`rest_client_*`, " +
		"`leader_election_*`, `go_*`, `process_*`,\n`kubernetes_build_info`) and of the plugin itself keep their names. " +
		"[Metrics](metrics.md) has all of ours.\n\n")
	for _, metric := range metrics {
		fmt.Fprintf(&page, "- `%s`: %s\n", metric.name, metric.meaning)
	}
	return page.Bytes()
}

// listed writes flags, in lines of the page's width.
func listed(flags []string) string {
	var text strings.Builder
	column := 0
	for i, flag := range flags {
		word := "`--" + flag + "`"
		if i < len(flags)-1 {
			word += ","
		}
		switch {
		case i == 0:
		case column+1+len(word) > width:
			text.WriteString("\n")
			column = 0
		default:
			text.WriteString(" ")
			column++
		}
		text.WriteString(word)
		column += len(word)
	}
	return text.String()
}
