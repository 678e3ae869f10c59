package netlab

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"text/template"
)

// frrDaemons is where Debian and its kin have them.
const frrDaemons = "/usr/lib/frr/"

// Router is the configuration of a router.
type Router struct {
	// Kind is what it is, and Host where it runs.
	Kind Kind
	Host *Host
	// Dir is a directory for its files.
	Dir string
	// ASN is its autonomous system.
	ASN uint32
	// RouterID is its BGP identifier, an IPv4 address.
	RouterID netip.Addr
	// Neighbors are its BGP neighbors. It waits for them to connect, and takes all routes of both families from them.
	Neighbors []Neighbor
	// Text is a whole configuration of the router's kind, which holds instead of all else.
	Text string
}

// Neighbor is one BGP session of a router, for IPv4 and IPv6.
type Neighbor struct {
	// Address is the neighbor's.
	Address netip.Addr
	// ASN is the neighbor's.
	ASN uint32
	// Password is the password for TCP MD5 signatures; empty for none.
	Password string
	// Multihop is how many hops an external neighbor is away at most; zero for one on the same network.
	Multihop int
	// NoAddPath refuses several paths to one destination.
	NoAddPath bool
	// TTLSecurity drops what does not come from the same network (RFC 5082).
	TTLSecurity bool
	// BFD watches the neighbor, every 100 ms.
	BFD bool
	// Announce says that the router announces its own networks to the neighbor. Otherwise it announces nothing.
	Announce bool
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
{{- if .TTLSecurity}}
 neighbor {{.Address}} ttl-security hops 1
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

var birdConfig = template.Must(template.New("bird.conf").Parse(`log stderr all;
router id {{.RouterID}};
protocol device { scan time 1; }
protocol direct { ipv4; ipv6; }
protocol kernel { ipv4 { import none; export where source = RTS_BGP; }; merge paths on limit 64; }
protocol kernel { ipv6 { import none; export where source = RTS_BGP; }; merge paths on limit 64; }
{{- if .BFD}}
protocol bfd { interface "*" { min rx interval 100 ms; min tx interval 100 ms; multiplier 3; }; }
{{- end}}
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
{{- if .TTLSecurity}}
	ttl security on;
	direct;
{{- end}}
{{- if .BFD}}
	bfd on;
{{- end}}
	ipv4 { import all; export {{if .Announce}}all{{else}}none{{end}}; {{if not .NoAddPath}}add paths rx;{{end}} };
	ipv6 { import all; export {{if .Announce}}all{{else}}none{{end}}; {{if not .NoAddPath}}add paths rx;{{end}} };
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
	dir := r.frrDir()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	zebra, bgpd := filepath.Join(dir, "zebra.conf"), filepath.Join(dir, "bgpd.conf")
	if err := r.write(bgpd, frrConfig); err != nil {
		return nil, err
	}
	if err := os.WriteFile(zebra, []byte("log stdout informational\n"), 0o600); err != nil {
		return nil, err
	}
	if err := giveToFRR(dir, bgpd, zebra); err != nil {
		return nil, err
	}
	daemons := []Daemon{r.frrDaemon("zebra", zebra, "zserv.api")}
	if r.watches() {
		daemons = append(daemons, r.frrDaemon("bfdd", zebra, "bfdd.vty"))
	}
	return append(daemons, r.frrDaemon("bgpd", bgpd, "bgpd.vty")), nil
}

// watches reports whether some neighbor is watched.
func (r *Router) watches() bool {
	return slices.ContainsFunc(r.Neighbors, func(n Neighbor) bool { return n.BFD })
}

// frrDir is where the daemons of a host look for each other.
func (r *Router) frrDir() string { return filepath.Join("/run/frr", r.Host.Name) }

// frrDaemon runs in the foreground, with the sockets of its host.
func (r *Router) frrDaemon(name, config, socket string) Daemon {
	args := []string{frrDaemons + name, "-N", r.Host.Name, "-f", config, "-P", "0"}
	return Daemon{Name: name, Args: append(r.Host.Args(), args...), Socket: filepath.Join(r.frrDir(), socket)}
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
	config := filepath.Join(r.Dir, "bird.conf")
	if err := r.write(config, birdConfig); err != nil {
		return nil, err
	}
	args := []string{"bird", "-f", "-c", config, "-s", r.birdSocket(), "-P", filepath.Join(r.Dir, "bird.pid")}
	return []Daemon{{Name: "bird", Args: append(r.Host.Args(), args...), Socket: r.birdSocket()}}, nil
}

func (r *Router) birdSocket() string { return filepath.Join(r.Dir, "bird.ctl") }

// Query is what asks the router's own command line, in the words of either kind.
func (r *Router) Query(frr, bird string) []string {
	if r.Kind == FRR {
		return []string{"vtysh", "-N", r.Host.Name, "-c", frr}
	}
	return []string{"birdc", "-s", r.birdSocket(), bird}
}

// write writes the router's configuration: its text, or without one what a template makes of all else.
func (r *Router) write(path string, otherwise *template.Template) error {
	text := bytes.NewBufferString(r.Text)
	if r.Text == "" {
		values := struct {
			*Router
			Families []string
			BFD      bool
		}{r, []string{"ipv4", "ipv6"}, r.watches()}
		if err := otherwise.Execute(text, values); err != nil {
			return err
		}
	}
	return os.WriteFile(path, text.Bytes(), 0o600)
}
