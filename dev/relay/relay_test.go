package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/poll"
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
	r, err := Start(server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	manager, err := net.Dial("tcp", r.Address())
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
	want := Traffic{Received: 3 * questions, Sent: questions}
	poll.Until(t, fmt.Sprintf("%+v is counted", want), func(context.Context) error {
		if got := r.Traffic(); got != want {
			return fmt.Errorf("it is %+v", got)
		}
		return nil
	})
	r.Pause()
	if _, err := manager.Write([]byte("?")); err != nil {
		t.Fatal(err)
	}
	_ = manager.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := manager.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("while the relay is paused: %v", err)
	}
	_ = manager.SetReadDeadline(time.Now().Add(20 * time.Second))
	r.Pause() // again, which must not leave behind what waits already
	r.Resume()
	if _, err := io.ReadFull(manager, make([]byte, 3)); err != nil {
		t.Errorf("after it was resumed: %v", err)
	}
	r.Pause() // which must not keep it from its end
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := manager.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open after the relay was closed")
	}
	var none *Relay
	if got := none.Traffic(); got != (Traffic{}) {
		t.Errorf("without a relay: %+v", got)
	}
}
