package ccm

import (
	"testing"

	"k8s.io/client-go/rest"

	"github.com/mooring-ccm/mooring/internal/dryrun"
)

// Without a list of load balancers the record alone is believed if a flag or the profile of the plugin says so, and otherwise all are ensured.
func TestWhenTheRecordIsEnough(t *testing.T) {
	for name, test := range map[string]struct {
		flag             string
		profile, dry     bool
		kept, isBelieved bool
	}{
		"by default":   {flag: ensureAuto, kept: true},
		"by the flag":  {flag: ensureChanged, kept: true, isBelieved: true},
		"by a profile": {flag: ensureAuto, profile: true, kept: true, isBelieved: true},
		"all":          {flag: ensureAll, profile: true},
		"a dry run":    {flag: ensureChanged, dry: true},
	} {
		environment := Environment{kubeconfig: &rest.Config{Host: "https://192.0.2.1"}, config: &config{ensuresChanged: test.profile}}
		if test.dry {
			environment.config.dryRun = &dryrun.Recorder{}
		}
		record, err := (&serviceFlags{ensureAtStart: test.flag}).record(environment)
		if err != nil || (record != nil) != test.kept || record != nil && record.WithoutList != test.isBelieved {
			t.Errorf("%s: record %+v, %v", name, record, err)
		}
	}
}
