package self

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// The routes of the network namespace, as proc(5) and the kernel's net/ipv6/route.c show them.
const (
	routes4 = "/proc/thread-self/net/route"
	routes6 = "/proc/thread-self/net/ipv6_route"
)

// errNoGateway says that there is no default route with a gateway that can be dialed.
var errNoGateway = errors.New("this machine has no default route by a gateway, or by one with a link-local address only")

// Gateway returns the gateway of the default route of an address family, of several the one with the lowest metric.
func Gateway(ipv6 bool) (netip.Addr, error) {
	path, parse := routes4, gateway4
	if ipv6 {
		path, parse = routes6, gateway6
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("reading the routes of this machine: %w", err)
	}
	return lowest(string(text), parse)
}

// lowest returns the gateway with the lowest metric.
func lowest(text string, parse func(fields []string) (gateway netip.Addr, metric uint64)) (netip.Addr, error) {
	var found netip.Addr
	least := uint64(0)
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		gateway, metric := parse(strings.Fields(lines.Text()))
		if gateway.IsValid() && !gateway.IsUnspecified() && !gateway.IsLinkLocalUnicast() && (!found.IsValid() || metric < least) {
			found, least = gateway, metric
		}
	}
	if !found.IsValid() {
		return found, errNoGateway
	}
	return found, nil
}

// gateway4 reads a line of IPv4: interface, destination, gateway, flags, two counters, metric, mask. Addresses are in the order of the host,
// which is little endian on all that the daemon is built for.
func gateway4(fields []string) (netip.Addr, uint64) {
	if len(fields) < 8 || fields[1] != "00000000" || fields[7] != "00000000" {
		return netip.Addr{}, 0
	}
	raw, err := hex.DecodeString(fields[2])
	metric, wrong := strconv.ParseUint(fields[6], 10, 64)
	if err != nil || wrong != nil || len(raw) != 4 {
		return netip.Addr{}, 0
	}
	slices.Reverse(raw)
	return netip.AddrFrom4([4]byte(raw)), metric
}

// gateway6 reads a line of IPv6: destination, its length, source, its length, gateway, metric.
func gateway6(fields []string) (netip.Addr, uint64) {
	if len(fields) < 6 || fields[1] != "00" || strings.Trim(fields[0], "0") != "" {
		return netip.Addr{}, 0
	}
	raw, err := hex.DecodeString(fields[4])
	metric, wrong := strconv.ParseUint(fields[5], 16, 64)
	if err != nil || wrong != nil || len(raw) != 16 {
		return netip.Addr{}, 0
	}
	return netip.AddrFrom16([16]byte(raw)), metric
}
