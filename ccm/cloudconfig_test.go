package ccm

import (
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/secrets"
)

func TestParseConfigRef(t *testing.T) {
	for text, want := range map[string]string{
		"configmap/kube-system/mooring":            "ConfigMap kube-system/mooring, key cloud.yaml",
		"secret/kube-system/mooring.config/my.yml": "Secret kube-system/mooring.config, key my.yml",
	} {
		ref, err := parseConfigRef(text)
		if err != nil || ref.String() != want {
			t.Errorf("%s is %v, %v; want %s", text, ref, err, want)
		}
	}
	for _, text := range []string{"mooring", "configmap/mooring", "pod/a/b", "configmap/a/b/c/d", "secret/A/b", "secret/a/B", "secret/a/b/c d", "configmap//b", "configmap/a/b/"} {
		if ref, err := parseConfigRef(text); err == nil || !strings.Contains(err.Error(), "--cloud-config-object") {
			t.Errorf("%s is %v, %v", text, ref, err)
		}
	}
	if ref, err := parseConfigRef(""); ref != nil || err != nil || ref.grants() != nil {
		t.Errorf("none is %v, %v", ref, err)
	}
}

func TestRefusal(t *testing.T) {
	if got := refusal("h", "goes on", errMigrationLost); got != "h goes on: "+errMigrationLost.Error() {
		t.Error(got)
	}
	long := refusal("h", "goes on", invalid("x", strings.Repeat("y", 2000), "z"))
	if len(long) > kit.MaxMessage || !strings.HasSuffix(long, "...") {
		t.Errorf("%d bytes: %s", len(long), long)
	}
}

// The client of the cloud is where errors of the plugin come in.
func TestTheClientKnowsTheSecrets(t *testing.T) {
	known := secrets.New(nil)
	if got := (&config{}).cloudOptions(t.Context(), nil, nil, newFence(), known).Secrets; got != known {
		t.Errorf("it gets %v", got)
	}
}
