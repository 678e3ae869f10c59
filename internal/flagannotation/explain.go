package flagannotation

import "github.com/spf13/pflag"

// Explain says why there are flags that the reference cloud controller manager does not have, by their names.
func Explain(flags *pflag.FlagSet, reasons map[string]string) {
	for name, reason := range reasons {
		if flag := flags.Lookup(name); flag != nil {
			flag.Annotations = map[string][]string{Added: {reason}}
		}
	}
}
