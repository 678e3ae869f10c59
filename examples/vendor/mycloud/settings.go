package mycloud

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// Settings are the provider's flags.
type Settings struct {
	// ZoneSuffix is what the name of the only zone adds to the name of its region.
	ZoneSuffix string
}

// AddFlags defines the flags.
func (s *Settings) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.ZoneSuffix, "mycloud-zone-suffix", "-1", "The suffix that turns a region's name into the name of its zone.")
}

// Validate returns what is wrong with their values.
func (s *Settings) Validate() []error {
	if !strings.HasPrefix(s.ZoneSuffix, "-") {
		return []error{fmt.Errorf("--mycloud-zone-suffix %q: must begin with a dash", s.ZoneSuffix)}
	}
	return nil
}
