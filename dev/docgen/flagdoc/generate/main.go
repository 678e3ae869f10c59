// Command generate writes docs/reference/flags.md, or with --check says whether it is up to date.
package main

import (
	"flag"
	"os"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/dev/docgen"
	"github.com/mooring-ccm/mooring/dev/docgen/flagdoc"
	"github.com/mooring-ccm/mooring/extensions"
	"github.com/mooring-ccm/mooring/extensions/metallb"
)

func main() {
	os.Exit(docgen.Main(docgen.Page{
		File: "docs/reference/flags.md", Of: "flags", Generate: "./ccm",
		Render: func() ([]byte, error) {
			return flagdoc.Render(ccm.NewCommand(append(extensions.All(), metallb.All()...)...).Flags()), nil
		},
	}, flag.CommandLine, os.Args[1:], os.Stderr))
}
