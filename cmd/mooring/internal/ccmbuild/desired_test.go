package ccmbuild

import (
	"slices"
	"testing"
)

func TestParsePackage(t *testing.T) {
	for text, want := range map[string]Package{
		"example.com/mycloud":         {Path: "example.com/mycloud"},
		"example.com/my/cloud@v1.2.3": {Path: "example.com/my/cloud", Version: "v1.2.3"},
		"example.com/cloud@main":      {Path: "example.com/cloud", Version: "main"},
		"example.com/c@v1.0.0+x":      {Path: "example.com/c", Version: "v1.0.0+x"},
		".":                           {Dir: "."},
		"./my@cloud":                  {Dir: "./my@cloud"},
		"/srv/mycloud":                {Dir: "/srv/mycloud"},
	} {
		if got, err := ParsePackage(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "@v1", "mycloud", "fmt", "example.com/x@", "example.com/...", "example.com/x y", "-example.com/x", "example.com/x\"\n",
		"example.com/x@v1 v2",
		`example.com\x`,
	} {
		if got, err := ParsePackage(text); err == nil {
			t.Errorf("%q is taken for %+v", text, got)
		}
	}
}

func TestParseReplacement(t *testing.T) {
	for text, want := range map[string]Replacement{
		"example.com/a=../a":                     {Module: "example.com/a", Dir: "../a"},
		"example.com/a@v1.0.0=/srv/a":            {Module: "example.com/a", Version: "v1.0.0", Dir: "/srv/a"},
		"example.com/a=example.com/b":            {Module: "example.com/a", NewModule: "example.com/b"},
		"example.com/a=example.com/a@v0.0.0-x.y": {Module: "example.com/a", NewModule: "example.com/a", NewVersion: "v0.0.0-x.y"},
	} {
		if got, err := ParseReplacement(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		} else if got.String() != text {
			t.Errorf("%q is written as %q", text, got)
		}
	}
	for _, text := range []string{"", "example.com/a", "example.com/a=", "=./a", "./a=./b", "a=./b", "example.com/a=b"} {
		if got, err := ParseReplacement(text); err == nil {
			t.Errorf("%q is taken for %+v", text, got)
		}
	}
}

func TestParsePlatforms(t *testing.T) {
	got, err := ParsePlatforms("linux/amd64,linux/arm/v7")
	want := []Platform{{OS: "linux", Arch: "amd64"}, {OS: "linux", Arch: "arm", Variant: "v7"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if got[0].String() != "linux/amd64" || got[1].String() != "linux/arm/v7" {
		t.Errorf("written as %s and %s", got[0], got[1])
	}
	for _, text := range []string{
		"", "linux", "linux/", "linux/amd64,", "linux/amd64/v2", "linux/arm/v9", "linux/amd64,linux/amd64", "a/b/c/d",
	} {
		if got, err := ParsePlatforms(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}
