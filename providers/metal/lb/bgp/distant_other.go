//go:build !linux

package bgp

// dropDistant does nothing: only Linux is told what to drop.
func dropDistant(int) error { return nil }
