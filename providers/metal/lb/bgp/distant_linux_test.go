package bgp

import (
	"net"
	"strconv"
	"testing"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/mooring-ccm/mooring/dev/must"
)

// TestDistantPacketsAreDropped has a packet come that a router has forwarded, by both families: the socket gets what came straight only.
func TestDistantPacketsAreDropped(t *testing.T) {
	socket, err := net.ListenPacket("udp", ":0")
	must.NoError(t, err)
	defer func() { must.NoError(t, socket.Close()) }()
	port := socket.LocalAddr().(*net.UDPAddr).Port
	for range 2 { // as at each look
		must.NoError(t, dropDistant(port))
	}
	send := func(host string, ttl int, what string) {
		t.Helper()
		connection, err := net.Dial("udp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil && host == "::1" {
			t.Log("this machine has no IPv6:", err)
			return
		}
		must.NoError(t, err)
		defer func() { must.NoError(t, connection.Close()) }()
		if host == "::1" {
			must.NoError(t, ipv6.NewConn(connection).SetHopLimit(ttl))
		} else {
			must.NoError(t, ipv4.NewConn(connection).SetTTL(ttl))
		}
		_, err = connection.Write([]byte(what))
		must.NoError(t, err)
	}
	for _, host := range []string{"127.0.0.1", "::1"} {
		send(host, 254, "distant")
		send(host, 255, "near")
	}
	send("127.0.0.1", 255, "last")
	must.NoError(t, socket.SetReadDeadline(time.Now().Add(time.Minute)))
	buffer := make([]byte, 100)
	for {
		n, _, err := socket.ReadFrom(buffer)
		must.NoError(t, err)
		switch got := string(buffer[:n]); got {
		case "last":
			return
		case "near":
		default:
			t.Errorf("the socket got a packet that is %s", got)
		}
	}
}
