//go:build !linux

package bgp

import "net/netip"

// unacknowledged returns nothing: only Linux is asked what a router has confirmed.
func unacknowledged(map[uint16]bool) map[netip.Addr]uint32 { return nil }
