package netlab

import (
	"net"
	"testing"
)

func TestPortsAreUsedOnceInARound(t *testing.T) {
	var ports Ports
	seen := map[int]bool{}
	for range lastPort - firstPort + 1 {
		port := ports.Dialer().LocalAddr.(*net.TCPAddr).Port
		if port < firstPort || port > lastPort || seen[port] {
			t.Fatalf("port %d after %d others", port, len(seen))
		}
		seen[port] = true
	}
	if again := ports.Dialer().LocalAddr.(*net.TCPAddr).Port; again != firstPort {
		t.Errorf("the second round begins with %d", again)
	}
}
