package instances_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

// Clouds do not always spell a provider ID as the node has it.
func TestProviderIDsInAnotherSpelling(t *testing.T) {
	const azure = "azure:///subscriptions/1/resourceGroups/Prod/vm/a"
	for name, test := range map[string]struct {
		listed []provider.Instance
		id     string
		want   string // the ID of the instance that is found
	}{
		"as it is":                           {instancesOf("sim:///z/a", "SIM:///Z/A"), "sim:///z/a", "sim:///z/a"},
		"in another case":                    {instancesOf("azure:///subscriptions/1/resourcegroups/prod/vm/a"), azure, "azure:///subscriptions/1/resourcegroups/prod/vm/a"},
		"with a slash more":                  {instancesOf("aws:///i-1"), "aws:////i-1", "aws:///i-1"},
		"in two spellings, neither of which": {instancesOf("sim:///z/a", "sim:///z//a"), "SIM:///z/a", ""},
		"without its scheme":                 {instancesOf("sim://z/a", "sim://z/b"), "z/a", "sim://z/a"},
		"with a slash, without its scheme":   {instancesOf("sim:///z/a"), "z/a", "sim:///z/a"},
		"without its scheme, of two":         {instancesOf("sim://z/a", "other://z/a"), "z/a", ""},
		"of another scheme":                  {instancesOf("sim://z/a"), "other://z/a", ""},
		"another instance":                   {instancesOf("sim:///z/b"), "sim:///z/a", ""},
		"of a node of another name":          {[]provider.Instance{namedInstance("sim:///z/A", "other")}, "sim:///z/a", ""},
		"of a node of this name":             {[]provider.Instance{namedInstance("sim:///z/A", "a")}, "sim:///z/a", "sim:///z/A"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := newListingCloud("healthy")
				for _, instance := range test.listed {
					cloud.instances[instance.ProviderID] = instance
				}
				inv := instances.New(instances.Options{Cloud: cloud})
				got := lookup(t, inv, nodeWithID("a", test.id), 0)
				if got.Answered != test.want || (got.Status == instances.Found) != (test.want != "") {
					t.Errorf("%s, the instance %q; want %q", got.Status, got.Answered, test.want)
				}
				if got := lookup(t, inv, node("healthy"), time.Minute); got.Answered != "sim://healthy" {
					t.Errorf("beside it the instance %q is found, want sim://healthy", got.Answered)
				}
			})
		})
	}
}

func instancesOf(ids ...string) (all []provider.Instance) {
	for _, id := range ids {
		all = append(all, namedInstance(id, ""))
	}
	return all
}

func namedInstance(id, name string) provider.Instance {
	instance := instanceFor(name)
	instance.ProviderID = id
	return instance
}
