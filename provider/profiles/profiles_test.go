package profiles

import (
	"strings"
	"testing"

	cloudprovider "k8s.io/cloud-provider"
)

// wrapper is a plugin that has another within.
type wrapper struct{ cloudprovider.Interface }

func TestAPluginIsKnownByItsPackageAndMajorVersion(t *testing.T) {
	const aws, module = "k8s.io/cloud-provider-aws/pkg/providers/v1", "k8s.io/cloud-provider-aws"
	for name, test := range map[string]struct {
		pkg      string
		versions map[string]string
		want     string // in the error; empty: the profile holds
	}{
		"the version that was read":      {aws, map[string]string{module: "v1.37.0"}, ""},
		"a later one":                    {aws, map[string]string{module: "v1.40.2"}, ""},
		"another major version":          {aws, map[string]string{module: "v2.0.0"}, `was made for k8s.io/cloud-provider-aws v1.37.0, and this program has "v2.0.0"`},
		"a version that is not known":    {aws, map[string]string{module: "(devel)"}, `"(devel)"`},
		"a package that wraps it":        {"example.com/ours/aws", map[string]string{module: "v1.37.0"}, `no profile of package "example.com/ours/aws"`},
		"a package below it":             {aws + "/batcher", map[string]string{module: "v1.37.0"}, "no profile"},
		"a module of which nothing runs": {aws, nil, "this program has"},
	} {
		t.Run(name, func(t *testing.T) {
			profile, err := find(test.pkg, test.versions)
			switch {
			case test.want == "" && (err != nil || profile.Name != "AWS" || profile.InFlight == 0):
				t.Errorf("profile %+v, error %v", profile, err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || profile != Profile{}):
				t.Errorf("profile %+v, error %v; want one with %q", profile, err, test.want)
			}
		})
	}
	if got, want := packageOf(&wrapper{}), "github.com/mooring-ccm/mooring/provider/profiles"; got != want {
		t.Errorf("the package of a wrapper is %q, want %q", got, want)
	}
	if _, err := Of(&wrapper{}); err == nil {
		t.Error("a wrapper has a profile")
	}
}

// TestEachProfileNamesItsSource, its package once, and a version.
func TestEachProfileNamesItsSource(t *testing.T) {
	seen := map[string]bool{}
	for _, profile := range known {
		if profile.Name == "" || profile.Source == "" || majorOf(profile.ReadAt) == "" {
			t.Errorf("incomplete: %+v", profile)
		}
		if !strings.HasPrefix(profile.Package, profile.Module) || seen[profile.Package] {
			t.Errorf("%s: package %s of module %s, twice: %v", profile.Name, profile.Package, profile.Module, seen[profile.Package])
		}
		seen[profile.Package] = true
	}
}
