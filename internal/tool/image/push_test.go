package image

import (
	"io"
	"log"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// TestPush sends the image of one platform and the index of two to a registry, and pulls both by the digest that Push returns.
func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	for tag, platforms := range map[string][]string{"one": {"linux/amd64"}, "two": {"linux/amd64", "linux/arm64"}} {
		file := filepath.Join(t.TempDir(), "image.tar")
		written, err := Write(t.Context(), file, t.TempDir(), Options{Name: "ahoy", Programs: compile(t, platforms...)})
		if err != nil {
			t.Fatal(err)
		}
		reference := host + "/ahoy:" + tag
		digest, err := Push(t.Context(), file, t.TempDir(), reference)
		if err != nil || digest != written {
			t.Fatalf("pushed %s, written %s: %v", digest, written, err)
		}
		pulled, err := name.NewDigest(host + "/ahoy@" + digest.String())
		if err != nil {
			t.Fatal(err)
		}
		if len(platforms) == 1 {
			image, err := remote.Image(pulled)
			if err != nil {
				t.Fatal(err)
			}
			if err := validate.Image(image); err != nil {
				t.Error(err)
			}
			continue
		}
		index, err := remote.Index(pulled)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Index(index); err != nil {
			t.Error(err)
		}
	}
	if _, err := Push(t.Context(), "/nowhere.tar", t.TempDir(), host+"/ahoy:v1"); err == nil || !strings.Contains(err.Error(), "/nowhere.tar") {
		t.Errorf("of a file that is not there: %v", err)
	}
	for _, wrong := range []string{"", "ahoy", "ahoy:v1", host + "/ahoy", host + "/AHOY:v1"} {
		if CheckReference(wrong) == nil {
			t.Errorf("%q is taken for the name of an image in a registry", wrong)
		}
	}
}
