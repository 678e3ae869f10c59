package lab

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"text/template"
)

// frrDaemons is where Debian and its kin have them.
const frrDaemons = "/usr/lib/frr/"

// Router is what a router is told.
type Router struct {
	// Kind is what it is, and Host where it runs.
	Kind Kind
	Host *Host
	// Dir is a directory for its files.
	Dir string
	// ASN is its autonomous system, and that of its neighbours, which connect to it.
	ASN uint32
	// RouterID is its BGP identifier, an IPv4 address.
	RouterID netip.Addr
	// Neighbors are whom it speaks to. It takes all routes of both families from them, and announces none.
	Neighbors []netip.Addr
}

// Daemon is a program of a router.
type Daemon struct {
	// Name is what it is called, and Args are its command line in the host's network.
	Name string
	Args []string
	// Socket is there when it can be talked to.
	Socket string
}

var frrConfig = template.Must(template.New("frr.conf").Parse(`log stdout informational
bgp route-map delay-timer 0
router bgp {{.ASN}}
 bgp router-id {{.RouterID}}
 no bgp default ipv4-unicast
{{- $asn := .ASN}}
{{- range .Neighbors}}
 neighbor {{.}} remote-as {{$asn}}
 neighbor {{.}} passive
{{- end}}
 address-family ipv4 unicast
{{- range .Neighbors}}
  neighbor {{.}} activate
  neighbor {{.}} prefix-list nothing out
{{- end}}
 exit-address-family
 address-family ipv6 unicast
{{- range .Neighbors}}
  neighbor {{.}} activate
  neighbor {{.}} prefix-list nothing out
{{- end}}
 exit-address-family
exit
ip prefix-list nothing seq 5 deny any
ipv6 prefix-list nothing seq 5 deny any
`))

var birdConfig = template.Must(template.New("bird.conf").Parse(`log stderr all;
router id {{.RouterID}};
protocol device { scan time 1; }
protocol direct { ipv4; ipv6; }
protocol kernel { ipv4 { import none; export where source = RTS_BGP; }; merge paths on; }
protocol kernel { ipv6 { import none; export where source = RTS_BGP; }; merge paths on; }
{{- $asn := .ASN}}
{{- range $i, $neighbor := .Neighbors}}
protocol bgp neighbor{{$i}} {
	local as {{$asn}};
	neighbor {{$neighbor}} as {{$asn}};
	passive yes;
	error wait time 1, 5;
	ipv4 { import all; export none; add paths rx; };
	ipv6 { import all; export none; add paths rx; };
}
{{- end}}
`))

// Configure writes the router's configuration, makes its host forward, and returns what to start, in this order.
func (r *Router) Configure() ([]Daemon, error) {
	if err := r.Host.Forward(); err != nil {
		return nil, err
	}
	configure := r.configureBIRD
	if r.Kind == FRR {
		configure = r.configureFRR
	}
	daemons, err := configure()
	if err != nil {
		return nil, fmt.Errorf("configure the router: %w", err)
	}
	return daemons, nil
}

// configureFRR puts everything where FRR's daemons, which give up root for a user of their own, look for each other.
func (r *Router) configureFRR() ([]Daemon, error) {
	dir := filepath.Join("/run/frr", r.Host.Name)
	config := filepath.Join(dir, "bgpd.conf")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := r.write(config, frrConfig); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "zebra.conf"), []byte("log stdout informational\n"), 0o600); err != nil {
		return nil, err
	}
	if err := giveToFRR(dir, config, filepath.Join(dir, "zebra.conf")); err != nil {
		return nil, err
	}
	daemon := func(name, socket string) Daemon {
		args := []string{frrDaemons + name, "-N", r.Host.Name, "-f", filepath.Join(dir, name+".conf"), "-P", "0"}
		return Daemon{Name: name, Args: append(r.Host.Args(), args...), Socket: filepath.Join(dir, socket)}
	}
	return []Daemon{daemon("zebra", "zserv.api"), daemon("bgpd", "bgpd.vty")}, nil
}

func giveToFRR(paths ...string) error {
	frr, err := user.Lookup("frr")
	if err != nil {
		return err
	}
	uid, err := strconv.Atoi(frr.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(frr.Gid)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := os.Chown(path, uid, gid); err != nil {
			return err
		}
	}
	return nil
}

func (r *Router) configureBIRD() ([]Daemon, error) {
	config, socket := filepath.Join(r.Dir, "bird.conf"), filepath.Join(r.Dir, "bird.ctl")
	if err := r.write(config, birdConfig); err != nil {
		return nil, err
	}
	args := []string{"bird", "-f", "-c", config, "-s", socket, "-P", filepath.Join(r.Dir, "bird.pid")}
	return []Daemon{{Name: "bird", Args: append(r.Host.Args(), args...), Socket: socket}}, nil
}

func (r *Router) write(path string, config *template.Template) error {
	var text bytes.Buffer
	if err := config.Execute(&text, r); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o600)
}
