package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mooring-ccm/mooring/dev/program"
	"github.com/mooring-ccm/mooring/dev/simulation/run"
)

// environment is the environment of a process that runs draws. The process has one core, collects garbage only near its memory limit, and never
// preempts a goroutine. Other load on the machine then changes the order of goroutines less.
var environment = []string{program.SelfEnv + "=worker", "GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=700MiB", "GODEBUG=asyncpreemptoff=1"}

// kept is how much is printed of what a process said that ended in the middle of a draw.
const kept = 2000

// campaign runs draws, each in a process of its own, as many at the same time as there are cores. A draw whose process ends is reported as failed, and
// the others go on.
type campaign struct {
	options
	out, messages io.Writer

	mu    sync.Mutex
	began time.Time
	// next is the next seed, and again says that it has been run once.
	next  uint64
	again bool
	// results are the results of draws that shall be repeated, until the second one is there.
	results map[uint64]result
	// done are the draws that have been run as often as they shall.
	done map[uint64]bool
	// kinds are the kinds found, listed the files of known ones that were printed. unknown counts the kinds that are not listed, known the
	// draws that broke listed kinds only.
	kinds, listed  map[string]bool
	unknown, known int
	// rare counts the kinds that do not count. beside and never are what is reported apart.
	rare, never int
	beside      map[string]int
	failed      []uint64
	repeats     repeats
	// processor is the time of cores that all runs took, memory the most that a process had.
	runs      int
	processor time.Duration
	memory    int64
}

// repeats are how draws that were run twice differ.
type repeats struct {
	draws, objects, otherObjects, otherTimes int
	otherRules, otherKinds, otherTraces      []uint64
}

func newCampaign(o options, out, messages io.Writer) *campaign {
	return &campaign{
		options: o, out: out, messages: messages, began: time.Now(), next: o.seed,
		results: map[uint64]result{}, done: map[uint64]bool{}, kinds: map[string]bool{}, listed: map[string]bool{}, beside: map[string]int{},
	}
}

// run runs the draws until they are done or ctx ends. It reports how many kinds are not known and how many draws failed.
func (c *campaign) run(ctx context.Context) (failures int, err error) {
	var workers sync.WaitGroup
	errs := make([]error, c.processes)
	for i := range errs {
		workers.Go(func() {
			runtime.LockOSThread() // the processes die with the thread that starts them
			for seed, ok := c.take(); ok && errs[i] == nil && ctx.Err() == nil; seed, ok = c.take() {
				errs[i] = c.draw(ctx, seed)
			}
		})
	}
	workers.Wait()
	_, _ = fmt.Fprintln(c.messages) // ends the line of progress
	c.report()
	return c.unknown + len(c.failed), errors.Join(errs...)
}

// take returns the next seed, each twice if draws are repeated.
func (c *campaign) take() (seed uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seed = c.next
	if c.again = c.repeat && !c.again; !c.again {
		c.next++
	}
	return seed, seed < c.seed+c.draws
}

// draw runs a draw in a process.
func (c *campaign) draw(ctx context.Context, seed uint64) error {
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var printed, said bytes.Buffer
	command, err := worker(bounded, &printed, &said, "--seed="+strconv.FormatUint(seed, 10), "--draws=1",
		"--repeat="+strconv.FormatBool(c.repeat), "--save="+c.save)
	if err != nil {
		return err
	}
	failure := command.Wait()
	if ctx.Err() != nil {
		return nil // the campaign is interrupted
	}
	c.spent(command.ProcessState)
	if bounded.Err() != nil {
		failure = fmt.Errorf("no result after %s: %w", c.timeout, failure)
	}
	if failure != nil {
		c.fail(seed, fmt.Sprintf("%v: %.*s", failure, kept, said.String()+printed.String()))
		return nil
	}
	for line := range strings.Lines(printed.String()) {
		if text, ok := strings.CutPrefix(line, resultPrefix); ok {
			var of result
			if err := json.Unmarshal([]byte(text), &of); err != nil {
				return fmt.Errorf("result of seed %d: %w", seed, err)
			}
			c.add(of)
		}
	}
	return nil
}

// worker starts this program as a process that does what the arguments say. The thread of the caller has to be locked: the process dies with it.
func worker(ctx context.Context, out, messages io.Writer, arguments ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start a process for draws: %w", err)
	}
	command := exec.CommandContext(ctx, self, append([]string{"--worker"}, arguments...)...)
	command.Env = append(os.Environ(), environment...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches the campaign only
	program.DieWithParent(command.SysProcAttr)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGQUIT) } // it says where it hangs
	command.WaitDelay = 10 * time.Second
	command.Stdout, command.Stderr = out, messages
	if err := start(command); err != nil {
		return nil, fmt.Errorf("start a process for draws: %w", err)
	}
	return command, nil
}

// spent adds what a process took.
func (c *campaign) spent(state *os.ProcessState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs++
	c.processor += state.UserTime() + state.SystemTime()
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		c.memory = max(c.memory, usage.Maxrss<<10)
	}
}

// fail reports a draw whose process ended.
func (c *campaign) fail(seed uint64, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done[seed] = true; slices.Contains(c.failed, seed) {
		return
	}
	c.failed = append(c.failed, seed)
	_, _ = fmt.Fprintf(c.out, "\nfailed: seed %d: %s\n", seed, message)
}

// add keeps what is new in a result.
func (c *campaign) add(one result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, again := c.results[one.Seed]
	switch {
	case !c.repeat:
		c.done[one.Seed] = true
	case again:
		c.done[one.Seed] = true
		delete(c.results, one.Seed)
		c.repeats.compare(first, one)
	default:
		c.results[one.Seed] = one
	}
	if len(one.Kinds) > 0 && !again && !slices.ContainsFunc(one.Kinds, func(kind string) bool { return run.Known(kind) == "" }) {
		c.known++
	}
	if one.Never && !again {
		c.never++
	}
	for method, count := range one.Beside {
		c.beside[method] += count
	}
	for _, kind := range one.Kinds {
		if trace, is := one.Rare[kind]; is {
			c.rare++
			_, _ = fmt.Fprintf(c.out, "\nthis kind does not count, because too few repetitions show it or chance explains it: %s, seed %d\n%s", kind, one.Seed, trace)
		} else if !c.kinds[kind] {
			c.kinds[kind] = true
			c.print(kind, one)
		}
	}
	_, _ = fmt.Fprintf(c.messages, "\r%d of %d draws after %s, %d kinds, %d of them new, %d draws with known kinds only, %d failed ",
		len(c.done), c.draws, time.Since(c.began).Round(time.Second), len(c.kinds), c.unknown, c.known, len(c.failed))
}

// print prints a kind with the seed that shows it and its first findings. Of a listed kind, it prints the first only. The lock is held.
func (c *campaign) print(kind string, one result) {
	state, about := "new", run.Known(kind)
	switch {
	case about == "":
		c.unknown++
	case c.listed[about]:
		return
	default:
		state, c.listed[about] = "known", true
		about = ", see " + about
	}
	_, _ = fmt.Fprintf(c.out, "\n%s kind: %s, seed %d%s\n", state, kind, one.Seed, about)
	for _, finding := range one.Findings[kind] {
		_, _ = fmt.Fprintf(c.out, "  %s\n", finding)
	}
}

// report prints the sums.
func (c *campaign) report() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = fmt.Fprintf(c.out, "%d of %d draws from seed %d: %d kinds, %d of them new, %d draws failed: %v\n",
		len(c.done), c.draws, c.seed, len(c.kinds), c.unknown, len(c.failed), c.failed)
	if c.rare > 0 {
		_, _ = fmt.Fprintf(c.out, "%d times a kind did not count, because too few repetitions showed it or chance explained it\n", c.rare)
	}
	for _, method := range slices.Sorted(maps.Keys(c.beside)) {
		_, _ = fmt.Fprintf(c.out, "apart: %d calls of %s entered beside an outstanding one\n", c.beside[method], method)
	}
	if c.never > 0 {
		_, _ = fmt.Fprintf(c.out, "apart: in %d draws the reference does not reach the state that is asked for\n", c.never)
	}
	if c.runs > 0 {
		const mebibyte = 1 << 20
		_, _ = fmt.Fprintf(c.out, "%.2f s of a core for each draw, at most %d MiB in each of %d processes\n",
			c.processor.Seconds()/float64(c.runs), c.memory/mebibyte, c.processes)
	}
	if c.repeat {
		c.repeats.report(c.out)
	}
	next := c.seed
	for c.done[next] {
		next++
	}
	if left := c.seed + c.draws - next; left > 0 {
		_, _ = fmt.Fprintf(c.out, "interrupted: go on with --seed=%d --draws=%d\n", next, left)
	}
}

// compare compares two runs of a draw.
func (r *repeats) compare(a, b result) {
	r.draws++
	switch {
	case !slices.Equal(a.Rules, b.Rules):
		r.otherRules = append(r.otherRules, a.Seed)
	case !slices.Equal(a.Kinds, b.Kinds):
		r.otherKinds = append(r.otherKinds, a.Seed)
	}
	objects := slices.AppendSeq(slices.Collect(maps.Keys(a.Digests)), maps.Keys(b.Digests))
	slices.Sort(objects)
	objects = slices.Compact(objects)
	r.objects += len(objects)
	same := true
	for _, object := range objects {
		if a.Digests[object].Timed != b.Digests[object].Timed {
			r.otherTimes++
		}
		if a.Digests[object].Trace != b.Digests[object].Trace {
			r.otherObjects++
			same = false
		}
	}
	if !same {
		r.otherTraces = append(r.otherTraces, a.Seed)
	}
}

// report prints how many draws and objects were the same.
func (r *repeats) report(out io.Writer) {
	share := func(other, of int) string {
		return fmt.Sprintf("%d of %d (%.1f %%)", of-other, of, 100*float64(of-other)/float64(max(of, 1)))
	}
	_, _ = fmt.Fprintf(out, "run twice: %s draws broke the same rules; others: %v\n", share(len(r.otherRules), r.draws), r.otherRules)
	_, _ = fmt.Fprintf(out, "run twice: %s draws broke the same rules in other kinds: %v\n", share(r.draws-len(r.otherKinds), r.draws), r.otherKinds)
	_, _ = fmt.Fprintf(out, "run twice: %s draws had the same traces of all objects; others: %v\n", share(len(r.otherTraces), r.draws), r.otherTraces)
	_, _ = fmt.Fprintf(out, "run twice: %s objects had the same traces, and %s at the same times\n", share(r.otherObjects, r.objects), share(r.otherTimes, r.objects))
}
