package environment

import (
	"io"
	"net"
	"testing"
	"time"
)

func TestRelayCountsBothWaysAndEnds(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() { // answers three bytes to each one, until the other side has no more to say
		connection, err := server.Accept()
		if err != nil {
			return
		}
		defer connection.Close()
		for heard := make([]byte, 1); ; {
			if _, err := connection.Read(heard); err != nil {
				return
			}
			if _, err := connection.Write([]byte("abc")); err != nil {
				return
			}
		}
	}()
	r, err := startRelay(server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	manager, err := net.Dial("tcp", r.address())
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	_ = manager.SetDeadline(time.Now().Add(time.Minute))
	const questions = 4
	for range questions {
		if _, err := manager.Write([]byte("?")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(manager, make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
	}
	// While the connection is open, as those of a manager are.
	want := traffic{received: 3 * questions, sent: questions}
	for end := time.Now().Add(time.Minute); r.traffic() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("counted %+v, want %+v", r.traffic(), want)
		}
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
	if _, err := manager.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open after the relay was closed")
	}
	var none *relay
	if got := none.traffic(); got != (traffic{}) {
		t.Errorf("without a relay: %+v", got)
	}
}
