package cloud

import (
	"errors"
	"testing"
	"time"
)

func TestUnreturned(t *testing.T) {
	inVirtualTime(t, Options{CallTimeout: time.Second, WriteTimeout: time.Minute}, func(t *testing.T, m *misbehaving) {
		m.set(m.hangs, "node")
		m.set(slow(2*time.Minute, nil), "service")
		_ = m.node(t.Context(), "node")
		if err := Unreturned(m.cloud); err != nil {
			t.Errorf("a read that hangs: %v", err)
		}
		if err := m.ensure(t.Context(), "service"); !errors.Is(err, ErrDeadline) {
			t.Fatalf("the write ended with %v", err)
		}
		var running *StillRunningError
		if err := Unreturned(m.cloud); !errors.As(err, &running) || running.Operation != "EnsureLoadBalancer" {
			t.Errorf("a write that was given up: %v", err)
		}
		time.Sleep(time.Minute)
		if err := Unreturned(m.cloud); err != nil {
			t.Errorf("when it has returned: %v", err)
		}
	})
}
