package router

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mooring-ccm/mooring/dev/netlab"
)

// program is a process of a router.
type program struct {
	name, log string
	process   *os.Process
	ended     chan struct{}
	err       error
}

func (r *Router) start(t *testing.T, daemon netlab.Daemon) *program {
	t.Helper()
	p := &program{name: daemon.Name, log: filepath.Join(r.dir, daemon.Name+".log"), ended: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(daemon.Args[0], daemon.Args[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", daemon.Name, err)
	}
	p.process = cmd.Process
	go func() {
		defer close(p.ended)
		p.err = cmd.Wait()
	}()
	return p
}

// runs returns an error with the log when the program has ended.
func (p *program) runs() error {
	select {
	case <-p.ended:
		content, _ := os.ReadFile(p.log)
		return fmt.Errorf("%s ended: %v\n%s", p.name, p.err, content)
	default:
		return nil
	}
}

func (p *program) kill() {
	_ = p.process.Kill() // an error says that it has ended
	<-p.ended
}
