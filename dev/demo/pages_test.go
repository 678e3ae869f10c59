package demo_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/doctest"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/poll"
)

const root = "../.."

// patience bounds every wait: the first build of a machine is not part of it, a demo on a busy machine is.
const patience = 5 * time.Minute

// TestDemos runs the demos as the pages show them. For demos that keep running, it also runs the commands that the pages show. What they build goes
// to a folder of this test.
func TestDemos(t *testing.T) {
	bin := t.TempDir()
	newPlace(t, bin).shell(t, "make build").finish(t, 0)
	for _, command := range doctest.Demos {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			here := newPlace(t, bin)
			run := here.shell(t, command)
			if strings.Contains(command, "--keep") {
				here.env = []string{"KUBECONFIG=" + run.await(t, `export KUBECONFIG=(\S+)`)}
				here.look(t, questions(t, command))
				if command == doctest.FirstKept {
					here.try(t)
				}
				run.interrupt(t)
				run.finish(t, anyCode)
			} else {
				run.finish(t, 0)
			}
			if !regexp.MustCompile(`All \d+ steps happened`).MatchString(run.text()) {
				t.Errorf("the summary is missing:\n%s", run.text())
			}
		})
	}
}

// questions are what the pages have a reader ask the demo that a command leaves running: what stands below it, up to the next one.
func questions(t *testing.T, of string) []string {
	t.Helper()
	proven, asked := doctest.Elsewhere(), []string{}
	paths, err := doctest.Pages(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		runs := doctest.FirstKept
		for _, shown := range doctest.Commands(string(page)) {
			if slices.Contains(doctest.Demos, shown) && strings.Contains(shown, "--keep") {
				runs = shown
			}
			if doctest.Looks(shown) && runs == of && proven[shown] == (doctest.Proof{}) {
				asked = append(asked, shown)
			}
		}
	}
	if len(asked) == 0 {
		t.Errorf("the pages ask nothing of what %s leaves running", of)
	}
	return asked
}

// look puts questions to a cluster. Each has something to show for an answer.
func (p place) look(t *testing.T, questions []string) {
	t.Helper()
	for _, question := range questions {
		asked := p.shell(t, question)
		asked.finish(t, 0)
		if said := asked.text(); said == "" || strings.HasPrefix(said, "No resources found") {
			t.Errorf("%s shows nothing: %s", question, said)
		}
	}
}

// try does to a cluster what the tutorials do to a reader's own, and sees that it was worth it.
func (p place) try(t *testing.T) {
	t.Helper()
	for _, file := range []string{"cloud.yaml", "password", "ca.pem"} { // the reader's
		if err := os.WriteFile(filepath.Join(p.dir, file), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.shell(t, "kubectl create deployment web --image=web").finish(t, 0)
	for _, command := range doctest.Tried {
		p.shell(t, command).finish(t, 0)
	}
	for _, check := range []string{
		"kubectl --kubeconfig=ccm.kubeconfig auth can-i patch nodes",
		"kubectl wait service web --for=jsonpath={.status.loadBalancer.ingress} --timeout=1m",
	} {
		p.shell(t, check).finish(t, 0)
	}
}

// anyCode lets finish take every exit code: make has one of its own for a recipe that was ended by Ctrl-C.
const anyCode = -1

// running is a command line that runs.
type running struct {
	command *exec.Cmd
	done    chan struct{}

	mu     sync.Mutex
	output bytes.Buffer
}

// Write takes what the command says.
func (r *running) Write(text []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.output.Write(text)
}

func (r *running) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.output.String()
}

// place is where a reader of the pages is: in a folder that looks like a checkout, but takes what commands write.
type place struct {
	dir, bin string
	// env comes on top of the environment.
	env []string
}

// newPlace makes a place, with programs in a folder that stands for bin.
func newPlace(t *testing.T, bin string) place {
	t.Helper()
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	p := place{dir: t.TempDir(), bin: bin}
	for name, of := range map[string]string{"bin": bin, "deploy": filepath.Join(checkout, "deploy")} {
		if err := os.Symlink(of, filepath.Join(p.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// shell starts a command line as a reader of the pages does. What make builds goes to the place's programs; it and demos need
// the checkout itself, and leave nothing behind there.
func (p place) shell(t *testing.T, line string) *running {
	t.Helper()
	dir := p.dir
	if strings.HasPrefix(line, "make ") {
		dir, line = root, line+" BIN="+p.bin
	}
	kubectl := localclustertest.Build(t, localcluster.Client).Dir()
	r := &running{command: exec.Command("sh", "-c", line), done: make(chan struct{})}
	r.command.Env = append(os.Environ(), "PATH="+kubectl+":"+os.Getenv("PATH"), "KUBECACHEDIR="+p.dir)
	r.command.Env = append(r.command.Env, p.env...)
	r.command.Dir, r.command.Stdout, r.command.Stderr = dir, r, r
	r.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = r.command.Wait() // finish looks at the state
		close(r.done)
	}()
	t.Cleanup(func() {
		select {
		case <-r.done:
		default:
			_ = syscall.Kill(-r.command.Process.Pid, syscall.SIGINT)
			<-r.done
		}
	})
	return r
}

// interrupt does what Ctrl-C in a terminal does.
func (r *running) interrupt(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(-r.command.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
}

// finish waits for the end and checks the exit code.
func (r *running) finish(t *testing.T, code int) {
	t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		t.Fatalf("%s does not end:\n%s", r.command, r.text())
	}
	if got := r.command.ProcessState.ExitCode(); code != anyCode && got != code {
		t.Errorf("%s: exit code %d, want %d:\n%s", r.command, got, code, r.text())
	}
}

// await waits until the command says something, and returns the first group of the expression.
func (r *running) await(t *testing.T, expression string) string {
	t.Helper()
	wanted := regexp.MustCompile(expression)
	var found []string
	poll.Within(t, patience, fmt.Sprintf("%s says %s", r.command, expression), func(context.Context) error {
		ended := false
		select {
		case <-r.done: // the command has written all of its output
			ended = true
		default:
		}
		if found = wanted.FindStringSubmatch(r.text()); found != nil {
			return nil
		}
		if ended {
			t.Fatalf("%s has ended:\n%s", r.command, r.text())
		}
		return errors.New(r.text())
	})
	return found[1]
}
