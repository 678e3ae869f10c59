package bgp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/bgp"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

// speakerVariable makes this test binary a speaker: a process of its own, in a host's network, which can be killed.
const speakerVariable = "MOORING_TEST_SPEAKER"

func TestMain(m *testing.M) {
	if os.Getenv(speakerVariable) != "" {
		if err := serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// The tests wait for routers much more than they compute.
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// request is what a test asks of a speaker; one field is set. The first one has Start.
type request struct {
	Start    *config.BGP
	Announce routing.Table
	Change   *config.BGP
	Peers    bool
	Ready    bool
	// Labels are those of the speaker's node from now on.
	Labels map[string]string
	Stop   bgp.Ending
}

// answer is what it says.
type answer struct {
	Error string
	Peers []bgp.PeerStatus
	// Missing is why the speaker is not ready.
	Missing string
	// Took is how long it was busy.
	Took time.Duration
	// Heap is how much memory it has in use, and Stack what goroutines it has when it ends.
	Heap   uint64
	Leaked string
}

// serve runs a speaker and answers until it is asked to stop.
func serve(in io.Reader, out io.Writer) error {
	requests, answers := json.NewDecoder(in), json.NewEncoder(out)
	logger := funcr.New(func(prefix, args string) {
		fmt.Fprintln(os.Stderr, time.Now().Format(time.StampMicro), prefix, args)
	}, funcr.Options{Verbosity: 2})
	ctx, cancel := context.WithCancel(logr.NewContext(context.Background(), logger))
	defer cancel()
	var speaker *bgp.Speaker
	ran := make(chan error, 1)
	var labels atomic.Pointer[map[string]string]
	for {
		var asked request
		if err := requests.Decode(&asked); err != nil {
			return err
		}
		begun := time.Now()
		var err error
		var said answer
		switch {
		case asked.Start != nil:
			options := bgp.Options{Config: *asked.Start, LookAgain: 200 * time.Millisecond}
			options.Machine.NodeLabels = func() (map[string]string, error) {
				if known := labels.Load(); known != nil {
					return *known, nil
				}
				return nil, nil
			}
			if speaker, err = bgp.New(options); err == nil {
				go func() { ran <- speaker.Run(ctx) }()
			}
		case asked.Announce != nil:
			err = speaker.Announce(ctx, asked.Announce)
		case asked.Change != nil:
			err = speaker.Reconfigure(ctx, *asked.Change)
		case asked.Labels != nil:
			labels.Store(&asked.Labels)
			speaker.LookNow()
		case asked.Peers:
			said.Peers = speaker.Peers()
		case asked.Ready:
			if missing := speaker.Ready(); missing != nil {
				said.Missing = missing.Error()
			}
		case asked.Stop != 0:
			err = errors.Join(speaker.Stop(ctx, asked.Stop), <-ran)
			if leak := goleak.Find(goleak.IgnoreCurrent()); leak != nil {
				said.Leaked = leak.Error()
			}
			said.Leaked += goroutinesOfTheLibrary()
		}
		if err != nil {
			said.Error = err.Error()
		}
		said.Took = time.Since(begun)
		if asked.Peers {
			runtime.GC() // so what is in use is what is needed
		}
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		said.Heap = memory.HeapInuse
		if err := answers.Encode(said); err != nil || asked.Stop != 0 {
			return err
		}
	}
}

// goroutinesOfTheLibrary waits up to a minute for the library's goroutines to end, and returns the ones that do not.
func goroutinesOfTheLibrary() string {
	buffer := make([]byte, 1<<20)
	var left []string
	_ = wait.PollUntilContextTimeout(context.Background(), 20*time.Millisecond, poll.Deadline, true, func(context.Context) (bool, error) {
		stacks := string(buffer[:runtime.Stack(buffer, true)])
		left = slices.DeleteFunc(strings.Split(stacks, "\n\n"), func(stack string) bool { return !strings.Contains(stack, "gobgp") })
		return len(left) == 0, nil
	})
	return strings.Join(left, "\n\n")
}

// process is a speaker in a process of its own.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *json.Decoder
	ended   chan struct{}
	log     string
}

// startSpeaker starts a speaker on a host. It ends with the test.
func startSpeaker(t *testing.T, host *sandbox.Host, dir string, section config.BGP) *process {
	t.Helper()
	log := filepath.Join(dir, fmt.Sprintf("speaker-%s-%d.log", host.Name, time.Now().UnixNano()))
	p := &process{ended: make(chan struct{}), log: log}
	args := append(host.Args(), "/proc/self/exe")
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args[len(args)-1] = executable
	p.cmd = exec.Command(args[0], args[1:]...)
	p.cmd.Env = append(os.Environ(), speakerVariable+"=1", "GORACE=halt_on_error=1")
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	p.cmd.Stderr = stderr
	p.answers = json.NewDecoder(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		<-t.Context().Done()
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		<-p.ended
		if t.Failed() {
			content, _ := os.ReadFile(p.log)
			if lines := bytes.Split(content, []byte("\n")); len(lines) > 40 {
				content = bytes.Join(lines[len(lines)-40:], []byte("\n"))
			}
			t.Logf("the end of the log of the speaker on %s:\n%s", host.Name, content)
		}
	})
	p.ask(t, request{Start: &section})
	return p
}

// kill ends the speaker without a word; the kernel closes its connections.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
}

func (p *process) ask(t *testing.T, asked request) answer {
	t.Helper()
	if err := json.NewEncoder(p.in).Encode(asked); err != nil {
		t.Fatalf("ask the speaker: %v", err)
	}
	var said answer
	if err := p.answers.Decode(&said); err != nil {
		t.Fatalf("hear the speaker: %v", err)
	}
	if said.Error != "" {
		t.Fatalf("the speaker says: %s", said.Error)
	}
	return said
}

func (p *process) announce(t *testing.T, wanted routing.Table) answer {
	t.Helper()
	return p.ask(t, request{Announce: wanted})
}

func (p *process) change(t *testing.T, section config.BGP) {
	t.Helper()
	p.ask(t, request{Change: &section})
}

func (p *process) peers(t *testing.T) map[string]bgp.PeerStatus {
	t.Helper()
	peers := map[string]bgp.PeerStatus{}
	for _, peer := range p.ask(t, request{Peers: true}).Peers {
		peers[peer.Name] = peer
	}
	return peers
}

// ready waits until the speaker's process would be.
func (p *process) ready(t *testing.T) {
	t.Helper()
	poll.Until(t, "the speaker is ready", func(context.Context) error {
		if missing := p.ask(t, request{Ready: true}).Missing; missing != "" {
			return errors.New(missing)
		}
		return nil
	})
}

// stop takes leave and checks that nothing of the speaker is left.
func (p *process) stop(t *testing.T, how bgp.Ending) {
	t.Helper()
	if said := p.ask(t, request{Stop: how}); said.Leaked != "" {
		t.Errorf("the speaker has stopped and left goroutines:\n%s", said.Leaked)
	}
}
