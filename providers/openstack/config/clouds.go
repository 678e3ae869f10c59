package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"go.yaml.in/yaml/v3"

	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/providers/internal/configsource"
)

// fromClouds fills what is empty in [Global] from clouds.yaml and secure.yaml. What is set in [Global] goes before.
func (g *Global) fromClouds(files *configsource.Files) error {
	for _, path := range usual("clouds.yaml") {
		_, _ = files.Read(path) // one may come that goes before the one that is there
	}
	file, err := g.cloudsFile()
	if err != nil {
		return err
	}
	name, cloud, err := chosenCloud(files, file, g.Cloud)
	if err != nil {
		return err
	}
	// The library puts clouds.yaml, secure.yaml and clouds-public.yaml together. It reads the files itself, and after this loop: the next
	// look sees a change in between. readTLS reads the files of certificates.
	for _, path := range append(usual("clouds-public.yaml"), filepath.Join(filepath.Dir(file), "secure.yaml")) {
		_, _ = files.Read(path)
	}
	auth, endpoint, tls, err := clouds.Parse(clouds.WithCloudName(name), clouds.WithLocations(file))
	if err != nil {
		return fmt.Errorf("cloud %q in %s: %s", message.Line(name, maxShown), file, withoutValues(err))
	}
	g.CAFile = first(g.CAFile, cloud.CACertFile)
	if g.CertFile == "" && g.KeyFile == "" {
		g.CertFile, g.KeyFile = cloud.ClientCertFile, cloud.ClientKeyFile
	}
	g.TLSInsecure = g.TLSInsecure || tls.InsecureSkipVerify
	g.Region = first(g.Region, endpoint.Region)
	g.EndpointType = first(g.EndpointType, string(endpoint.Availability))
	g.fill(auth)
	return nil
}

// fill takes over what is empty. A cloud.conf with one kind of credentials gets no other kind from clouds.yaml.
func (g *Global) fill(auth gophercloud.AuthOptions) {
	g.AuthURL = first(g.AuthURL, auth.IdentityEndpoint)
	g.UserID, g.Username = first(g.UserID, auth.UserID), first(g.Username, auth.Username)
	g.Password = first(g.Password, Secret(auth.Password))
	g.UserDomainID = first(g.UserDomainID, auth.DomainID)
	g.UserDomainName = first(g.UserDomainName, auth.DomainName)
	if scope := auth.Scope; scope != nil {
		g.TrustID = first(g.TrustID, scope.TrustID)
		if g.TenantID == "" && g.TenantName == "" {
			g.TenantID, g.TenantName = scope.ProjectID, scope.ProjectName
		}
		if scope.ProjectName != "" && g.TenantDomainID == "" && g.TenantDomainName == "" {
			g.TenantDomainID, g.TenantDomainName = scope.DomainID, scope.DomainName
		}
	}
	if g.ApplicationCredentialID == "" && g.ApplicationCredentialName == "" {
		g.ApplicationCredentialID, g.ApplicationCredentialName = auth.ApplicationCredentialID, auth.ApplicationCredentialName
	}
	g.ApplicationCredentialSecret = first(g.ApplicationCredentialSecret, Secret(auth.ApplicationCredentialSecret))
	g.Token = first(g.Token, Secret(auth.TokenID))
}

// first returns the first that is not empty.
func first[T ~string](values ...T) T {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}

// cloudsFile returns the path of clouds.yaml: the configured path, or the first usual path that exists.
func (g *Global) cloudsFile() (string, error) {
	if file := first(g.CloudsFile, os.Getenv("OS_CLIENT_CONFIG_FILE")); file != "" {
		return file, nil
	}
	candidates := usual("clouds.yaml")
	for _, candidate := range candidates {
		if _, err := os.Stat(candidate); !errors.Is(err, fs.ErrNotExist) {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("there is no clouds.yaml; looked for %s: set clouds-file", strings.Join(candidates, ", "))
}

// usual are the paths at which a file is looked for that no option names.
func usual(name string) []string {
	paths := []string{name}
	if home, err := os.UserConfigDir(); err == nil {
		paths = append(paths, filepath.Join(home, "openstack", name))
	}
	return append(paths, filepath.Join("/etc/openstack", name))
}

// cloudsPath is the file that clouds are read from, or the one that would be if there were any.
func (g *Global) cloudsPath() string {
	file, err := g.cloudsFile()
	if err != nil {
		return "clouds.yaml"
	}
	return file
}

// chosenCloud returns the cloud of that name, of OS_CLOUD, or the only one that is in the file.
func chosenCloud(files *configsource.Files, file, name string) (string, clouds.Cloud, error) {
	data, err := files.Read(file)
	if err != nil {
		return "", clouds.Cloud{}, err
	}
	var all clouds.Clouds
	if err := yaml.Unmarshal(data, &all); err != nil {
		return "", clouds.Cloud{}, fmt.Errorf("%s: %s", file, withoutValues(err))
	}
	name = first(name, os.Getenv("OS_CLOUD"))
	if name == "" && len(all.Clouds) == 1 {
		for only := range all.Clouds {
			name = only
		}
	}
	cloud, found := all.Clouds[name]
	switch {
	case name == "":
		return "", cloud, fmt.Errorf("there are %d clouds in %s: set cloud to the name of one", len(all.Clouds), file)
	case !found:
		return "", cloud, fmt.Errorf("there is no cloud %q in %s", message.Line(name, maxShown), file)
	case cloud.AuthInfo == nil:
		return "", cloud, fmt.Errorf("the cloud %q in %s has no section auth", message.Line(name, maxShown), file)
	}
	return name, cloud, nil
}

// quoted is a value as an error of the YAML library repeats it.
var quoted = regexp.MustCompile("`[^`]*`")

// withoutValues returns the text of an error without the values of the file: one of them may be the password.
func withoutValues(err error) string {
	return message.Line(quoted.ReplaceAllString(err.Error(), "(a value)"), maxShown)
}
