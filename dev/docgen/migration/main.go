// Command migration writes docs/reference/migration-table.md from the flags of both commands, from the source of the reference's
// metrics and from our page of metrics, or with --check says whether it is up to date. It fails on a metric of the reference about
// which it has nothing to say.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/dev/docgen"
	"github.com/mooring-ccm/mooring/extensions"
	"github.com/mooring-ccm/mooring/extensions/metallb"
)

func main() {
	metrics := flag.String("metrics", "docs/reference/metrics.md", "our page of metrics")
	os.Exit(docgen.Main(docgen.Page{
		File: "docs/reference/migration-table.md", Of: "flags and metrics", Generate: "./ccm",
		Render: func() ([]byte, error) { return page(*metrics) },
	}, flag.CommandLine, os.Args[1:], os.Stderr))
}

// page returns the table for who comes from the reference.
func page(metrics string) ([]byte, error) {
	reference, err := referenceFlags()
	if err != nil {
		return nil, err
	}
	flags, err := compareFlags(reference, ccm.NewCommand(append(extensions.All(), metallb.All()...)...).Flags())
	if err != nil {
		return nil, err
	}
	declared, err := referenceMetrics()
	if err != nil {
		return nil, err
	}
	ours, err := documented(metrics)
	if err != nil {
		return nil, err
	}
	kept, err := compareMetrics(declared, ours)
	if err != nil {
		return nil, err
	}
	return render(flags, kept), nil
}

// referenceFlags are the flags of the command that k8s.io/cloud-provider/sample builds.
func referenceFlags() (*pflag.FlagSet, error) {
	all, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		return nil, fmt.Errorf("options of the reference: %w", err)
	}
	return app.NewCloudControllerManagerCommand(all, nil, app.DefaultInitFuncConstructors, names.CCMControllerAliases(),
		cliflag.NamedFlagSets{}, nil).Flags(), nil
}

// documented returns the metrics that a page lists, by name. The text of one has the values of a label in brackets behind it, where they are few.
func documented(page string) (map[string]family, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	found := map[string]family{}
	for _, row := range regexp.MustCompile("(?m)^- `([a-z0-9_]+)` \\([a-z]+([^)]*)\\):(.*)$").FindAllSubmatch(text, -1) {
		one := family{name: string(row[1]), values: map[string][]string{}}
		for _, label := range regexp.MustCompile("`([a-z_]+)`").FindAllSubmatch(row[2], -1) {
			name := string(label[1])
			one.labels = append(one.labels, name)
			if values := regexp.MustCompile(name + ` \(([a-z_, ]+)\)`).FindSubmatch(row[3]); values != nil {
				one.values[name] = strings.Split(string(values[1]), ", ")
			}
		}
		slices.Sort(one.labels)
		found[one.name] = one
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no list of metrics", page)
	}
	return found, nil
}
