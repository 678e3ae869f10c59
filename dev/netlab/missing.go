package netlab

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Kind is a routing suite.
type Kind string

const (
	// FRR is FRRouting: zebra and bgpd.
	FRR Kind = "frr"
	// BIRD is the BIRD Internet Routing Daemon 2.
	BIRD Kind = "bird"
)

// Kinds are the routing suites that a netlab can have, the preferred one first.
func Kinds() []Kind { return []Kind{FRR, BIRD} }

// Programs are what a kind needs: paths, or names to look for.
func (k Kind) Programs() []string {
	if k == FRR {
		return []string{frrDaemons + "zebra", frrDaemons + "bgpd"}
	}
	return []string{"bird"}
}

// MissingError says all that this machine lacks for a netlab.
type MissingError struct {
	// Lacks are the things, in words.
	Lacks []string
}

// Error names them.
func (e *MissingError) Error() string {
	return "missing: " + strings.Join(e.Lacks, "; ")
}

// Check returns the routing suite to use and kube-proxy's mode, or a *MissingError. An empty kind means whichever is installed.
func Check(kind Kind) (found Kind, proxyMode string, err error) {
	var lacks []string
	if runtime.GOOS != "linux" {
		lacks = append(lacks, "Linux, for its network namespaces")
	}
	if os.Geteuid() != 0 {
		lacks = append(lacks, "root, to make network namespaces")
	}
	for _, needed := range []struct{ program, of string }{{"ip", "iproute2"}, {"nsenter", "util-linux"}} {
		if !installed(needed.program) {
			lacks = append(lacks, fmt.Sprintf("the program %s (package %s)", needed.program, needed.of))
		}
	}
	switch {
	case installed("nft"):
		proxyMode = "nftables"
	case installed("iptables", "iptables-restore", "iptables-save", "ip6tables"):
		proxyMode = "iptables"
	default:
		lacks = append(lacks, "nft or iptables for kube-proxy (package nftables or iptables)")
	}
	if found = choose(kind); found == "" {
		lacks = append(lacks, routerHint(kind))
	}
	if len(lacks) > 0 {
		return "", "", &MissingError{Lacks: lacks}
	}
	return found, proxyMode, nil
}

// choose returns the first kind that is installed and asked for, or none.
func choose(kind Kind) Kind {
	for _, k := range Kinds() {
		if (kind == "" || kind == k) && installed(k.Programs()...) {
			return k
		}
	}
	return ""
}

func routerHint(kind Kind) string {
	switch kind {
	case FRR:
		return "FRR (package frr)"
	case BIRD:
		return "BIRD (package bird2)"
	default:
		return "a router, FRR or BIRD (package frr or bird2)"
	}
}

func installed(programs ...string) bool {
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			return false
		}
	}
	return true
}
