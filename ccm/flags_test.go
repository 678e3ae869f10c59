package ccm

import (
	"os"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/names"
	ccmoptions "k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/mooring-ccm/mooring/dev/docgen/flagdoc"
)

// shape is what a user of a flag sees of it.
type shape struct {
	Type, Default, Usage, Shorthand, NoOptDefault, Deprecated string
	Hidden                                                    bool
}

func shapeOf(flag *pflag.Flag) shape {
	return shape{
		Type: flag.Value.Type(), Default: flag.DefValue, Usage: flag.Usage, Shorthand: flag.Shorthand,
		NoOptDefault: flag.NoOptDefVal, Deprecated: flag.Deprecated, Hidden: flag.Hidden,
	}
}

// referenceFlags are the flags of the command that k8s.io/cloud-provider/sample builds.
func referenceFlags(t *testing.T) *pflag.FlagSet {
	t.Helper()
	options, err := ccmoptions.NewCloudControllerManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	return app.NewCloudControllerManagerCommand(options, nil, app.DefaultInitFuncConstructors, names.CCMControllerAliases(),
		cliflag.NamedFlagSets{}, nil).Flags()
}

func TestFlagsAreTheReferences(t *testing.T) {
	ours, reference := NewCommand().Flags(), referenceFlags(t)
	for _, difference := range flagDifferences(ours, reference) {
		t.Error(difference)
	}
	if count := countFlags(reference); count < 60 {
		t.Errorf("the reference has %d flags: this test compares too few", count)
	}
}

// TestFlagDifferencesAreFound shows that the comparison can fail.
func TestFlagDifferencesAreFound(t *testing.T) {
	tampered := func(change func(*pflag.FlagSet)) *pflag.FlagSet {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		NewCommand().Flags().VisitAll(func(original *pflag.Flag) {
			flag := *original
			flags.AddFlag(&flag)
		})
		change(flags)
		return flags
	}
	for name, change := range map[string]func(*pflag.FlagSet){
		"another default":            func(flags *pflag.FlagSet) { flags.Lookup("cluster-name").DefValue = "other" },
		"another meaning":            func(flags *pflag.FlagSet) { flags.Lookup("cluster-name").Usage = "other" },
		"an undocumented flag":       func(flags *pflag.FlagSet) { flags.Bool("undocumented", false, "") },
		"a default as in their list": func(flags *pflag.FlagSet) { flags.Lookup("kube-api-qps").DefValue = "20" },
	} {
		t.Run(name, func(t *testing.T) {
			if len(flagDifferences(tampered(change), referenceFlags(t))) == 0 {
				t.Error("no difference found")
			}
		})
	}
	t.Run("a missing flag", func(t *testing.T) {
		if len(flagDifferences(pflag.NewFlagSet("", pflag.ContinueOnError), referenceFlags(t))) == 0 {
			t.Error("no difference found")
		}
	})
}

// flagDifferences returns a line for each difference that is not in package flagdoc, and for each row there that is none.
func flagDifferences(ours, reference *pflag.FlagSet) []string {
	var found []string
	defaults, added, noted := flagdoc.OtherDefaults(), flagdoc.Additions(), flagdoc.Notes()
	reference.VisitAll(func(theirs *pflag.Flag) {
		flag := ours.Lookup(theirs.Name)
		if flag == nil {
			found = append(found, "--"+theirs.Name+" is missing")
			return
		}
		want := shapeOf(theirs)
		if documented, differs := defaults[theirs.Name]; differs {
			if documented.Reference != theirs.DefValue || flag.DefValue == theirs.DefValue {
				found = append(found, "--"+theirs.Name+" is listed with a wrong or an equal default of the reference")
			}
			want.Default = flag.DefValue
		}
		got := shapeOf(flag)
		if diff := cmp.Diff(want, got); diff != "" {
			found = append(found, "--"+theirs.Name+" (-reference +ours):\n"+diff)
		}
		delete(defaults, theirs.Name)
	})
	ours.VisitAll(func(flag *pflag.Flag) {
		if _, documented := added[flag.Name]; !documented && reference.Lookup(flag.Name) == nil {
			found = append(found, "--"+flag.Name+" is neither in the reference nor documented as an addition")
		}
		delete(added, flag.Name)
		delete(noted, flag.Name)
	})
	for name := range defaults {
		found = append(found, "--"+name+" is listed with another default, but is not in the reference")
	}
	for name := range added {
		found = append(found, "--"+name+" is listed as an addition, but there is no such flag")
	}
	for name := range noted {
		found = append(found, "--"+name+" has a note, but there is no such flag")
	}
	return found
}

func countFlags(flags *pflag.FlagSet) (count int) {
	flags.VisitAll(func(*pflag.Flag) { count++ })
	return count
}

func TestReferencesAreUpToDate(t *testing.T) {
	for _, args := range [][]string{
		{"../dev/docgen/flagdoc/generate", "--check", "--file", "../docs/reference/flags.md"},
		{"../dev/docgen/metrics", "--check", "--root", "..", "--file", "../docs/reference/metrics.md"},
		{"../dev/docgen/migration", "--check", "--metrics", "../docs/reference/metrics.md", "--file", "../docs/reference/migration-table.md"},
	} {
		command := exec.CommandContext(t.Context(), "go", append([]string{"run"}, args...)...)
		command.Env = append(os.Environ(), "CGO_ENABLED=0") // as programs are shipped, so the build cache has it
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, output)
		}
	}
}
