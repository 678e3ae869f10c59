package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write writes files into a folder of the test, and returns the path of the first.
func write(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, files[0])
}

const cloudsYAML = `
clouds:
  east:
    auth: {auth_url: "https://k.example/v3", username: u, user_domain_name: d, project_name: p, project_domain_name: e}
    region_name: East
    interface: internal
    verify: false
`

const secureYAML = "clouds: {east: {auth: {password: pw}}}\n"

func TestClouds(t *testing.T) {
	file := write(t, "clouds.yaml", cloudsYAML, "secure.yaml", secureYAML)
	got := mustParse(t, "[Global]\nuse-clouds=true\nregion=West\nclouds-file="+file+"\n").Global
	want := Global{
		UseClouds: true, CloudsFile: file, AuthURL: "https://k.example/v3", Region: "West", EndpointType: "internal", TLSInsecure: true,
		Username: "u", UserDomainName: "d", Password: "pw", TenantName: "p", TenantDomainName: "e",
	}
	if got != want {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	if got := mustParse(t, "[Global]\nuse-clouds=true\ncloud=east\npassword=other\n").Global; got.Region != "East" || got.Password != "other" {
		t.Errorf("%+v, want what cloud.conf says first", got)
	}
}

func TestCloudsThatAreWrong(t *testing.T) {
	two := strings.Replace(cloudsYAML, "clouds:", "clouds:\n  west: {auth: {auth_url: x}}\n  none: {region_name: n}", 1)
	for want, test := range map[string][]string{
		`there is no cloud "north"`: {cloudsYAML, "cloud=north"},
		"there are 3 clouds":        {two, ""},
		"has no section auth":       {two, "cloud=none"},
		"(a value)":                 {"clouds: {east: {auth: hunter2}}", ""},
		"no such file":              {"", "clouds-file=/nowhere/clouds.yaml"},
	} {
		text := "[Global]\nuse-clouds=true\n" + test[1] + "\n"
		if !strings.Contains(text, "clouds-file") {
			text += "clouds-file=" + write(t, "clouds.yaml", test[0]) + "\n"
		}
		_, err := Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v\nwant %q", err, want)
		}
	}
}
