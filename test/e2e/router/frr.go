package router

import (
	"os"
	"path/filepath"
	"testing"
	"text/template"

	"github.com/mooring-ccm/mooring/test/e2e/sandbox"
)

// frrDaemons is where Debian has them.
const frrDaemons = "/usr/lib/frr/"

var frrConfig = template.Must(template.New("frr.conf").Parse(`log stdout informational
bgp route-map delay-timer 0
router bgp {{.ASN}}
 bgp router-id {{.RouterID}}
 bgp log-neighbor-changes
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
{{- range .Neighbors}}
 neighbor {{.Address}} remote-as {{.ASN}}
 neighbor {{.Address}} passive
{{- if .Password}}
 neighbor {{.Address}} password {{.Password}}
{{- end}}
{{- if .Multihop}}
 neighbor {{.Address}} ebgp-multihop {{.Multihop}}
{{- end}}
{{- if .BFD}}
 neighbor {{.Address}} bfd 3 100 100
{{- end}}
{{- end}}
{{- $neighbors := .Neighbors}}
{{- range $family := .Families}}
 address-family {{$family}} unicast
{{- range $neighbors}}
  neighbor {{.Address}} activate
{{- if .NoAddPath}}
  neighbor {{.Address}} disable-addpath-rx
{{- end}}
{{- if .Announce}}
  redistribute connected
{{- else}}
  neighbor {{.Address}} prefix-list nothing out
{{- end}}
{{- end}}
 exit-address-family
{{- end}}
exit
ip prefix-list nothing seq 5 deny any
ipv6 prefix-list nothing seq 5 deny any
`))

var zebraConfig = template.Must(template.New("zebra.conf").Parse("log stdout informational\n"))

// configureFRR writes the configuration of FRR and returns its daemons.
func (r *Router) configureFRR(t *testing.T, config Config) []command {
	t.Helper()
	if err := os.MkdirAll(r.frrDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	zebra := r.writeFRR(t, "zebra.conf", "", zebraConfig, nil)
	bgpd := r.writeFRR(t, "bgpd.conf", config.Text, frrConfig, struct {
		Config
		Families []string
	}{config, []string{"ipv4", "ipv6"}})
	// The daemons give up root for a user of their own, who has to be able to read and write there.
	sandbox.Command(t, "chown", "-R", "frr:frr", r.frrDir())
	commands := []command{r.frrDaemon("zebra", zebra)}
	for _, neighbor := range config.Neighbors {
		if neighbor.BFD {
			commands = append(commands, r.frrDaemon("bfdd", zebra))
			break
		}
	}
	return append(commands, r.frrDaemon("bgpd", bgpd))
}

// frrDir is where the daemons of a host look for each other, and where the sandbox lets their user go.
func (r *Router) frrDir() string { return filepath.Join("/run/frr", r.Host.Name) }

func (r *Router) writeFRR(t *testing.T, name, text string, otherwise *template.Template, values any) string {
	t.Helper()
	written := r.write(t, name, text, otherwise, values)
	content, err := os.ReadFile(written)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(r.frrDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// frrDaemon runs in the foreground, with the sockets of its host.
func (r *Router) frrDaemon(name, config string) command {
	socket := name + ".vty"
	if name == "zebra" {
		socket = "zserv.api"
	}
	return command{
		name: name, args: []string{frrDaemons + name, "-N", r.Host.Name, "-f", config, "-P", "0"},
		socket: filepath.Join(r.frrDir(), socket),
	}
}
