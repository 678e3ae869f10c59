package router

import (
	"path/filepath"
	"testing"
	"text/template"
)

var birdConfig = template.Must(template.New("bird.conf").Parse(`log stderr all;
router id {{.RouterID}};
protocol device { scan time 1; }
protocol direct { ipv4; ipv6; }
protocol kernel { ipv4 { import none; export where source = RTS_BGP; }; merge paths on limit 64; }
protocol kernel { ipv6 { import none; export where source = RTS_BGP; }; merge paths on limit 64; }
protocol bfd { interface "*" { min rx interval 100 ms; min tx interval 100 ms; multiplier 3; }; }
{{- $asn := .ASN}}
{{- range $i, $neighbor := .Neighbors}}
protocol bgp neighbor{{$i}} {
	local as {{$asn}};
	neighbor {{.Address}} as {{.ASN}};
	passive yes;
	error wait time 1, 5;
{{- if .Password}}
	password "{{.Password}}";
{{- end}}
{{- if .Multihop}}
	multihop {{.Multihop}};
{{- end}}
{{- if .BFD}}
	bfd on;
{{- end}}
	ipv4 { import all; export {{if .Announce}}all{{else}}none{{end}}; {{if not .NoAddPath}}add paths rx;{{end}} };
	ipv6 { import all; export {{if .Announce}}all{{else}}none{{end}}; {{if not .NoAddPath}}add paths rx;{{end}} };
}
{{- end}}
`))

// configureBIRD writes the configuration of BIRD and returns its daemon.
func (r *Router) configureBIRD(t *testing.T, config Config) []command {
	t.Helper()
	path := r.write(t, "bird.conf", config.Text, birdConfig, config)
	return []command{{
		name: "bird", args: []string{"bird", "-f", "-c", path, "-s", r.socket(), "-P", filepath.Join(r.dir, "bird.pid")},
	}}
}

func (r *Router) socket() string { return filepath.Join(r.dir, "bird.ctl") }
