package runner

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/mooring-ccm/mooring/dev/chaos/checker"
	"github.com/mooring-ccm/mooring/dev/chaos/misbehavior"
	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/program"
)

const (
	// restartPause is how long after its end a replica is started again, as a kubelet does.
	restartPause = time.Second
	// stopGrace is how long a replica may take to end after SIGTERM.
	stopGrace = 20 * time.Second
	// panicked and raced are the exit codes of a Go program that panicked, and of one in which the race detector found something.
	panicked, raced = 2, 66
)

// replica is one manager, whatever process it is at the moment.
type replica struct {
	name    string
	binary  string
	dir     string
	flags   []string
	env     []string
	api     *apiProxy
	servers []*httptest.Server
	checker *checker.Checker
	now     func() time.Duration
	clock   leaseClock

	mu      sync.Mutex
	running *program.Program
	port    int
	starts  int
	// held says that nothing is to be started in place of what ends, and ordered that its end was ordered.
	held, ordered bool
	// crash is the write at which it dies; empty for none.
	crash [2]string
	done  chan struct{}
}

// newReplica returns a replica that does not run yet, with a cloud and an API server of its own.
func newReplica(name string, o Options, env *environment, watch bool) (*replica, error) {
	r := &replica{
		name: name, binary: o.Binary, dir: env.dir, checker: env.record.checker, now: env.record.now, held: true, done: make(chan struct{}),
		flags: o.flags(), env: append(slices.Clone(o.Env), misbehavior.QuirksFile+"="+env.faults.quirksFile),
	}
	if o.Singly {
		r.env = append(r.env, misbehavior.Singly+"=true")
	}
	target, err := url.Parse(env.managerConfig.Host)
	if err != nil {
		return nil, err
	}
	r.api = newAPIProxy(r, env.record, env.faults, target, env.managerTransport)
	cloud := httptest.NewServer(&front{replica: r, record: env.record, faults: env.faults})
	api := httptest.NewServer(r.api)
	r.servers = []*httptest.Server{cloud, api}
	config := fmt.Sprintf("apiVersion: sim.mooring.dev/v1alpha1\nkind: CloudConfig\nendpoint: %s\ntokenFile: %s\nclusterName: %s\nregion: %s\n"+
		"watch: %t\nchangeTargets: %t\nrequestTimeout: 5s\n", cloud.URL, env.tokenFile, clusterName, env.region, watch, watch)
	kubeconfig := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],`+
		`"contexts":[{"name":"c","context":{"cluster":"c"}}]}`, api.URL)
	for file, content := range map[string]string{"cloud.yaml": config, "kubeconfig": kubeconfig} {
		if err := os.WriteFile(r.file(file), []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	go r.supervise()
	return r, nil
}

func (r *replica) file(name string) string { return filepath.Join(r.dir, r.name+"-"+name) }

// start starts a process, if none runs.
func (r *replica) start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held, r.ordered = false, false
	if r.running != nil && r.running.State() == nil {
		return nil
	}
	var err error
	if r.port, err = program.FreePort(); err != nil {
		return err
	}
	r.running, err = harness.Manager{
		Name: r.name, Path: r.binary, Dir: r.dir, Append: true, Env: r.env, Port: r.port, Kubeconfig: r.file("kubeconfig"),
		CloudConfig: r.file("cloud.yaml"), Flags: append([]string{"--cloud-provider=" + misbehavior.ProviderName}, r.flags...),
	}.Start(context.Background(), nil)
	r.starts++
	return err
}

// supervise starts a process in place of one that ended, until the replica is closed.
func (r *replica) supervise() {
	ticker := time.NewTicker(restartPause)
	defer ticker.Stop()
	for {
		select {
		case <-r.done:
			return
		case <-ticker.C:
		}
		r.mu.Lock()
		ended := r.running != nil && r.running.State() != nil
		held, ordered := r.held, r.ordered
		if ended && !ordered {
			r.ordered = true
			if code := r.running.State().ExitCode(); code == panicked || code == raced {
				r.checker.Fail(r.now(), checker.Runs, r.name, r.running.Tail())
			} else {
				r.checker.Passed(checker.Runs)
			}
		}
		r.mu.Unlock()
		if ended && !held {
			if err := r.start(); err != nil {
				r.checker.Fail(r.now(), checker.Runs, r.name, err.Error())
			}
		}
	}
}

// end ends the process by a signal, and has no other started until start is called.
func (r *replica) end(ctx context.Context, signal syscall.Signal) error {
	r.mu.Lock()
	r.held, r.ordered = true, true
	running := r.running
	r.mu.Unlock()
	if running == nil {
		return nil
	}
	if signal == syscall.SIGKILL {
		return running.Kill()
	}
	return running.Stop(ctx, stopGrace)
}

// process returns the name of the process that runs, one for each start, and the port that it serves on.
func (r *replica) process() (name string, port int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%s-%d", r.name, r.starts), r.port
}

// signal sends a signal to the process.
func (r *replica) signal(signal syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running == nil {
		return nil
	}
	return r.running.Signal(signal)
}

// arm has the process die at its next write of a kind.
func (r *replica) arm(write, side string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.crash = [2]string{write, side}
}

// armed says whether the process dies at a write.
func (r *replica) armed(write, side string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.crash == [2]string{write, side}
}

// dies kills the process if this is the write at which it dies. Another one starts soon.
func (r *replica) dies(write, side string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.crash != [2]string{write, side} {
		return false
	}
	r.crash = [2]string{}
	r.ordered = true
	_ = r.running.Signal(syscall.SIGKILL) // one that has ended is as dead
	return true
}

// close ends the replica for good.
func (r *replica) close(ctx context.Context) error {
	close(r.done)
	_ = r.signal(syscall.SIGCONT)
	err := r.end(ctx, syscall.SIGTERM)
	for _, server := range r.servers {
		server.CloseClientConnections()
		server.Close()
	}
	return err
}
