package main

import (
	"bufio"
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

// blockSize is how many draws a process runs. The next process begins with fresh memory.
const blockSize = 10

// kept is how much is printed of what a process said that ended in the middle of a draw.
const kept = 2000

// block are draws for one process.
type block struct{ first, draws uint64 }

// campaign runs draws, each block of seeds in a process of its own, as many at the same time as there are cores. A draw whose process ends is reported
// as failed, and the others go on.
type campaign struct {
	options
	out, messages io.Writer

	mu     sync.Mutex
	began  time.Time
	blocks []block
	// results are the results of draws that shall be repeated, until the second one is there.
	results map[uint64]result
	// done are the draws that have been run as often as they shall.
	done map[uint64]bool
	// kinds are the kinds found, listed the sentences about known ones that were printed. unknown counts the kinds that are not listed, known the
	// draws that broke listed kinds only.
	kinds, listed  map[string]bool
	unknown, known int
	failed         []uint64
	repeats        repeats
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
	c := &campaign{
		options: o, out: out, messages: messages, began: time.Now(),
		results: map[uint64]result{}, done: map[uint64]bool{}, kinds: map[string]bool{}, listed: map[string]bool{},
	}
	for first := o.seed; first < o.seed+o.draws; first += blockSize {
		one := block{first, min(blockSize, o.seed+o.draws-first)}
		c.blocks = append(c.blocks, one)
		if o.repeat {
			c.blocks = append(c.blocks, one)
		}
	}
	return c
}

// run runs the draws until they are done or ctx ends. It reports how many kinds are not known and how many draws failed.
func (c *campaign) run(ctx context.Context) (failures int, err error) {
	var workers sync.WaitGroup
	errs := make([]error, c.processes)
	for i := range errs {
		workers.Go(func() {
			runtime.LockOSThread() // the processes die with the thread that starts them
			for one, ok := c.take(); ok && errs[i] == nil && ctx.Err() == nil; one, ok = c.take() {
				errs[i] = c.block(ctx, one)
			}
		})
	}
	workers.Wait()
	_, _ = fmt.Fprintln(c.messages) // ends the line of progress
	c.report()
	return c.unknown + len(c.failed), errors.Join(errs...)
}

// take returns the next block.
func (c *campaign) take() (block, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.blocks) == 0 {
		return block{}, false
	}
	next := c.blocks[0]
	c.blocks = c.blocks[1:]
	return next, true
}

// block runs a block. A draw whose process ends is left out, and another process runs the rest.
func (c *campaign) block(ctx context.Context, one block) error {
	for one.draws > 0 {
		done, message, err := c.process(ctx, one)
		if err != nil || ctx.Err() != nil {
			return err
		}
		one.first, one.draws = one.first+done, one.draws-done
		if one.draws > 0 {
			c.fail(one.first, message)
			one.first, one.draws = one.first+1, one.draws-1
		}
	}
	return nil
}

// process runs draws in a process. It returns how many it has done, and what the process said.
func (c *campaign) process(ctx context.Context, one block) (done uint64, message string, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, "", fmt.Errorf("start a process for draws: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	command := exec.CommandContext(ctx, self, "--worker", "--seed="+strconv.FormatUint(one.first, 10), "--draws="+strconv.FormatUint(one.draws, 10))
	command.Env = append(os.Environ(), "GOMAXPROCS=1", program.SelfEnv+"=worker")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches this process only
	program.DieWithParent(command.SysProcAttr)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGQUIT) } // it says where it hangs
	command.WaitDelay = 10 * time.Second
	var said, printed bytes.Buffer
	command.Stderr = &said
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return 0, "", fmt.Errorf("start a process for draws: %w", err)
	}
	patience := time.AfterFunc(c.timeout, func() { cancel(fmt.Errorf("no result after %s", c.timeout)) })
	defer patience.Stop()
	lines := bufio.NewReader(output)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break // the process has ended
		}
		text, ok := strings.CutPrefix(line, resultPrefix)
		if !ok {
			printed.WriteString(line)
			continue
		}
		var of result
		if err := json.Unmarshal([]byte(text), &of); err != nil {
			return done, "", fmt.Errorf("result of a draw: %w", err)
		}
		patience.Reset(c.timeout)
		done++
		c.add(of)
	}
	err = command.Wait()
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("the process ended: %w", err)
	}
	c.spent(command.ProcessState, done)
	text := said.String() + printed.String()
	return done, fmt.Sprintf("%v: %.*s", errors.Join(context.Cause(ctx), err), kept, text), nil
}

// spent adds what a process took.
func (c *campaign) spent(state *os.ProcessState, runs uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs += int(runs)
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
	for _, kind := range one.Kinds {
		if !c.kinds[kind] {
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
