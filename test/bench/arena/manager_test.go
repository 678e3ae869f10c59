package arena

import (
	"os/exec"
	"syscall"
	"testing"
)

func TestSignalToAProcessWhoseEndIsNotNoticedYet(t *testing.T) {
	m := &Manager{name: "manager", command: exec.Command("true"), done: make(chan struct{})}
	if err := m.command.Run(); err != nil {
		t.Fatal(err)
	}
	if err := m.signal(syscall.SIGTERM); err != nil {
		t.Errorf("got %v, want no error: the process has ended", err)
	}
}
