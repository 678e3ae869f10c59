package config

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLinesOfOptions(t *testing.T) {
	got := Examine([]byte("; of the cluster\n[Global]\nauth-url = \"a\\\nregion = within the value\"\nREGION=x\n\n" +
		"[ loadbalancerclass \"a b\" ] # and\nsubnet-id = 1\nsubnet-id = 2\n[Global]\nuse-clouds\n")).Lines
	want := map[string]int{
		"[Global]": 2, "[Global].auth-url": 3, "[Global].region": 5, "[Global].use-clouds": 11,
		"[LoadBalancerClass \"a b\"]": 7, "[LoadBalancerClass \"a b\"].subnet-id": 9,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// What is said of a config without the cloud is what keeps a manager from starting with it.
func TestExamineAgreesWithParse(t *testing.T) {
	dir := t.TempDir()
	clouds := filepath.Join(dir, "clouds.yaml")
	text := "clouds: {c: {region_name: R, auth: {auth_url: 'https://k/v3', application_credential_id: i, application_credential_secret: s}}}\n"
	if err := os.WriteFile(clouds, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const right = "[Global]\nauth-url=https://k/v3\nregion=R\nusername=u\npassword=p\ntenant-name=t\ndomain-name=d\n"
	for name, text := range map[string]string{
		"right": right, "nothing": "", "twice": right + "region=S\n", "of a type": right + "[LoadBalancer]\nmonitor-delay=soon\n",
		"clouds": "[Global]\nuse-clouds\nclouds-file=" + clouds + "\n", "not that cloud": "[Global]\nuse-clouds\ncloud=d\nclouds-file=" + clouds + "\n",
		"no certificate": right + "ca-file=" + clouds + "\n", "a pair": right + "cert-file=" + clouds + "\n",
	} {
		_, err := Parse([]byte(text))
		found := Examine([]byte(text))
		if (err == nil) != (len(found.Errors) == 0) || len(found.Files) > 0 {
			t.Errorf("%s: Parse says %v, and Examine %v with files %v", name, err, found.Errors, found.Files)
		}
		if err != nil && invalid(found.Errors).Error() != err.Error() {
			t.Errorf("%s: Parse says\n%v\nand Examine\n%v", name, err, invalid(found.Errors))
		}
	}
	found := Examine([]byte("[Global]\nuse-clouds\nclouds-file=" + dir + "/none\nca-file=" + dir + "/ca\n"))
	if files := slices.Sorted(maps.Keys(found.Files)); len(found.Errors) > 0 || !slices.Equal(files, []string{"[Global].ca-file", "[Global].clouds-file"}) {
		t.Errorf("files elsewhere: errors %v, files %v", found.Errors, found.Files)
	}
}

func TestLooksLikeCloudConf(t *testing.T) {
	for text, want := range map[string]bool{
		"# x\n[Global]\n": true, "[global]\n": true, "[LoadBalancerClass \"a\"]\n": true, "[Global]": true,
		"": false, "[]": false, "[Other]\nx=1\n": false, "Global:\n  region: x\n": false, "{\"Global\": 1}": false,
	} {
		if got := LooksLikeCloudConf([]byte(text)); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
