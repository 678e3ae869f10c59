package ccm

import (
	"io"
	"os"
	"path/filepath"
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
