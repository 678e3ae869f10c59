package openstack

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"github.com/mooring-ccm/mooring/dev/openstack/chroot"
)

// files are the configuration files of the services, as templates, and what starts some of them.
//
//go:embed files/*.conf files/serve.py
var files embed.FS

const (
	// region is the only one.
	region = "RegionOne"
	// domain is where all users and projects are.
	domain = "Default"
	// stateName is the subdirectory of a cloud's directory that the services see as chroot.StateDir.
	stateName = "state"
	rabbitURL = "rabbit://guest:guest@127.0.0.1:5672/"
)

// zones are the compute hosts. Each is an availability zone of its own, of the same name.
var zones = []string{"az-a", "az-b", "az-c"}

// service is what the services call themselves with, in every section of a configuration file that logs in somewhere.
const serviceAuth = `www_authenticate_uri = http://127.0.0.1:5000/v3
auth_url = http://127.0.0.1:5000/v3
auth_type = password
username = ` + serviceUser + `
password = ` + servicePassword + `
project_name = ` + serviceProject + `
user_domain_name = ` + domain + `
project_domain_name = ` + domain + `
region_name = ` + region

// databaseURL returns how a service connects to one of its databases.
func databaseURL(name string) string {
	return "mysql+pymysql://root@localhost/" + name + "?unix_socket=" + chroot.StateDir + "/run/mysql.sock&charset=utf8"
}

// confPath returns where the services find a configuration file.
func confPath(name string) string { return chroot.StateDir + "/etc/" + name }

// stateDirs are the directories within a state that the services expect.
var stateDirs = []string{
	"etc", "run", "fernet", "cred", "glance/images", "nova/instances", "neutron", "octavia", "rabbit/mnesia", "ovn", "certs", "lock",
}

// writeState writes all that the services read, but for the database.
func writeState(dir string) error {
	for _, sub := range stateDirs {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	all, err := template.New("files").Funcs(template.FuncMap{
		"auth":     func() string { return serviceAuth },
		"database": databaseURL,
		"port":     func(name string) int { return apis[Service(name)].port },
		"rabbit":   func() string { return rabbitURL },
		"region":   func() string { return region },
		"state":    func() string { return chroot.StateDir },
		"unpacked": func() string { return unpackDir },
		"zones":    func() []string { return zones },
	}).ParseFS(files, "files/*")
	if err != nil {
		return err
	}
	for _, file := range all.Templates() {
		if err := writeTemplate(file, filepath.Join(dir, "etc", file.Name())); err != nil {
			return err
		}
	}
	for _, zone := range zones {
		content := fmt.Appendf(nil, "[DEFAULT]\nhost = %s\n", zone)
		if err := os.WriteFile(filepath.Join(dir, "etc", "nova-"+zone+".conf"), content, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "rabbit", "plugins"), nil, 0o644)
}

func writeTemplate(from *template.Template, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := from.Execute(file, nil); err != nil {
		file.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	return file.Close()
}
