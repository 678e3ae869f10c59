package ccm

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cloudprovider "k8s.io/cloud-provider"
)

// readingProvider is a plugin that remembers what its factory was given.
const readingProvider = "reading"

var given struct {
	name    string
	content string
	isNil   bool
}

func init() {
	cloudprovider.RegisterCloudProvider(readingProvider, func(config io.Reader) (cloudprovider.Interface, error) {
		if given.isNil = config == nil; given.isNil {
			return struct{ cloudprovider.Interface }{}, nil
		}
		if file, ok := config.(*os.File); ok {
			given.name = file.Name()
		}
		content, err := io.ReadAll(config)
		given.content = string(content)
		if err != nil {
			return nil, err
		}
		return struct{ cloudprovider.Interface }{}, nil
	})
}

// TestAFactoryGetsTheFile: a plugin that follows its configuration takes the path from the file that the reference gives it.
func TestAFactoryGetsTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(file, []byte("region = north"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newPlugin(t.Context(), nil, ProviderEnvironment{Name: readingProvider, ConfigFile: file}); err != nil {
		t.Fatal(err)
	}
	if given.name != file || given.content != "region = north" {
		t.Errorf("the factory was given %q with %q", given.name, given.content)
	}
	if _, err := newPlugin(t.Context(), nil, ProviderEnvironment{Name: readingProvider}); err != nil {
		t.Fatal(err)
	}
	if !given.isNil {
		t.Error("without --cloud-config the factory was not given nil")
	}
}

// TestRegisteredProvidersAreListed fails after an upgrade of k8s.io/cloud-provider that keeps registered factories elsewhere.
func TestRegisteredProvidersAreListed(t *testing.T) {
	if providers[readingProvider] == nil {
		t.Error("the map of k8s.io/cloud-provider lacks a provider that is registered")
	}
	want := `this program has ` + listed(slices.Collect(maps.Keys(providers)))
	if err := (&program{}).validateProvider("redaing"); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(want, readingProvider) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}
