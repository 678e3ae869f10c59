package cloudsim_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// childEnv holds the state file for a copy of this test binary that serves a cloud until it is killed.
const childEnv = "MOORING_SIM_CHILD_STATE_FILE"

func serveAsChild() int {
	s, err := cloudsim.Open(cloudsim.Options{StateFile: os.Getenv(childEnv), Token: cloudsim.StaticToken(simtest.Token)})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(listener.Addr())
	if err := s.Serve(context.Background(), listener); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// startChild starts a cloud in a process of its own. The returned function kills it as kill -9 does.
func startChild(t *testing.T, stateFile string) (*api.Client, func()) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), childEnv+"="+stateFile)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	kill := sync.OnceFunc(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	t.Cleanup(kill)
	address, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("the child did not say where it serves: %v", err)
	}
	client, err := api.NewClient(api.ClientOptions{Endpoint: "http://" + strings.TrimSpace(address), Token: cloudsim.StaticToken(simtest.Token)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return client, kill
}

// Several writers are interrupted by kill -9 in the middle of their work. What was acknowledged is there afterwards, and an ID
// is never given twice.
func TestAcknowledgedWritesSurviveKill(t *testing.T) {
	stateFile := filepath.Join(t.TempDir(), "state.db")
	want := map[string]int64{} // ID to generation, 0 for a deleted one
	for round := range 3 {
		client, kill := startChild(t, stateFile)
		check(t, client, want)
		var mu sync.Mutex
		acknowledged := 0
		var writers sync.WaitGroup
		for writer := range 4 {
			writers.Go(func() {
				for i := 0; ; i++ {
					spec := cloudsim.DefaultInstance(1 + round*10000 + writer*1000 + i)
					created, err := client.CreateInstance(context.Background(), spec)
					if err != nil {
						return
					}
					mu.Lock()
					if _, twice := want[created.ID]; twice {
						t.Errorf("ID %s was given twice", created.ID)
					}
					want[created.ID] = created.Generation
					acknowledged++
					mu.Unlock()
					change(client, created, i, func(generation int64) {
						mu.Lock()
						defer mu.Unlock()
						want[created.ID] = generation
					})
				}
			})
		}
		simtest.Eventually(t, "twenty acknowledged writes", func(context.Context) bool {
			mu.Lock()
			defer mu.Unlock()
			return acknowledged >= 20
		})
		kill()
		writers.Wait()
	}
	client, _ := startChild(t, stateFile)
	check(t, client, want)
}

// change updates every second instance and deletes every third. A write that was not acknowledged may have happened or not:
// then nothing is known of the instance, and unknown is called.
func change(client *api.Client, created *api.Instance, i int, acknowledged func(generation int64)) {
	switch {
	case i%2 == 1:
		spec := created.InstanceSpec
		spec.MachineType = cloudsim.TypeLarge
		if updated, err := client.UpdateInstance(context.Background(), created.ID, spec, 0); err == nil {
			acknowledged(updated.Generation)
		} else {
			acknowledged(unknown)
		}
	case i%3 == 2:
		if err := client.DeleteInstance(context.Background(), created.ID, 0); err == nil {
			acknowledged(0)
		} else {
			acknowledged(unknown)
		}
	}
}

const unknown = -1

func check(t *testing.T, client *api.Client, want map[string]int64) {
	t.Helper()
	got := map[string]int64{}
	err := client.ListInstances(t.Context(), func(page []api.Instance) error {
		for _, instance := range page {
			got[instance.ID] = instance.Generation
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for id, generation := range want {
		if generation != unknown && got[id] != generation {
			t.Errorf("instance %s has generation %d after the kill, %d was acknowledged", id, got[id], generation)
		}
	}
}

func TestRestartOnTheSameStateFile(t *testing.T) {
	stateFile := filepath.Join(t.TempDir(), "state.db")
	options := cloudsim.Options{StateFile: stateFile, Token: cloudsim.StaticToken(simtest.Token), Seed: cloudsim.DefaultSeed(3)}
	first, err := cloudsim.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cloudsim.Open(options); err == nil || !strings.Contains(err.Error(), "another process has it open") {
		t.Errorf("opening the state file twice: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	options.Seed = cloudsim.DefaultSeed(9) // ignored: the file has a state
	cloud := simtest.Start(t, options)
	if diff := cmp.Diff([]string{"node-001", "node-002", "node-003"}, names(t, cloud)); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
	if created := cloud.Create(t, cloudsim.DefaultInstance(4)); created.ID != "i-00000004" {
		t.Errorf("the next ID is %s", created.ID)
	}
}

func TestStateFileThatIsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("not a database\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := cloudsim.Open(cloudsim.Options{StateFile: path, Token: cloudsim.StaticToken("x")}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error is %v, want one that names the file", err)
	}
}

func TestServeEndsWithHangingCalls(t *testing.T) {
	s, err := cloudsim.Open(cloudsim.Options{StateFile: filepath.Join(t.TempDir(), "state.db"), Token: cloudsim.StaticToken(simtest.Token)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.AddFault(api.Fault{Operation: api.AnyOperation, Mode: api.FaultHang, Count: 1}); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served, answered := make(chan error, 1), make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	client, err := api.NewClient(api.ClientOptions{Endpoint: "http://" + listener.Addr().String(), Token: cloudsim.StaticToken(simtest.Token)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	go func() {
		_, err := client.GetInstance(t.Context(), "i-1")
		answered <- err
	}()
	simtest.Eventually(t, "the call hangs", func(context.Context) bool { return s.Counts().Received() == 1 && len(s.Faults()) == 0 })
	cancel()
	if err := <-answered; !api.HasCode(err, api.CodeUnavailable) {
		t.Errorf("the hanging call was answered with %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
