// Command migrationdoc writes docs/reference/migration-table.md from the flags of both commands, from the source of the reference's
// metrics and from our page of metrics, or with --check says whether it is up to date. It fails on a metric of the reference about
// which it has nothing to say.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"

	"github.com/spf13/pflag"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/internal/generated"
)

func main() {
	check := flag.Bool("check", false, "write nothing, and fail if the file is not what would be written")
	metrics := flag.String("metrics", "docs/reference/metrics.md", "our page of metrics")
	file := flag.String("file", "docs/reference/migration-table.md", "the file to write")
	flag.Parse()
	if err := generate(*metrics, *file, *check); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func generate(metrics, file string, check bool) error {
	reference, err := referenceFlags()
	if err != nil {
		return err
	}
	flags, err := compareFlags(reference, ccm.NewCommand().Flags())
	if err != nil {
		return err
	}
	declared, err := referenceMetrics()
	if err != nil {
		return err
	}
	ours, err := documented(metrics)
	if err != nil {
		return err
	}
	kept, err := compareMetrics(declared, ours)
	if err != nil {
		return err
	}
	text := render(flags, kept)
	return generated.Put(file, text, check, "flags and metrics", "./ccm")
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

// documented returns the names of the metrics that a page has in the first column of a table.
func documented(page string) (map[string]bool, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, name := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\|").FindAllSubmatch(text, -1) {
		found[string(name[1])] = true
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no table of metrics", page)
	}
	return found, nil
}
