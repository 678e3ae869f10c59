package docs

import (
	"bytes"
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

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// patience bounds every wait: the first build of a machine is not part of it, a demo on a busy machine is.
const patience = 5 * time.Minute

// TestDemos runs the demos that the pages show, as they show them, and what they show of the one that is left running. What
// they build goes to a folder of this test.
func TestDemos(t *testing.T) {
	bin := t.TempDir()
	shell(t, bin, "make build").finish(t, 0)
	for _, command := range here {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			run := shell(t, bin, command)
			if strings.Contains(command, "--keep") {
				kubeconfig := run.await(t, `export KUBECONFIG=(\S+)`)
				for _, shown := range questions(t, command) {
					wanted, _ := ParseGet(shown)
					answer(t, kubeconfig, shown, wanted)
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
	proven, asked := elsewhere(), []string{}
	for _, path := range pages(t) {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		runs := firstKept
		for _, shown := range Commands(string(page)) {
			if slices.Contains(here, shown) && strings.Contains(shown, "--keep") {
				runs = shown
			}
			if _, ok := ParseGet(shown); ok && runs == of && proven[shown] == (proof{}) {
				asked = append(asked, shown)
			}
		}
	}
	if len(asked) == 0 {
		t.Errorf("the pages ask nothing of what %s leaves running", of)
	}
	return asked
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

// shell starts a command line as a reader of the pages does, in the root of the project. The folder stands for bin.
func shell(t *testing.T, bin, line string) *running {
	t.Helper()
	words := strings.Fields(line)
	if words[0] == "make" {
		words = append(words, "BIN="+bin)
	}
	if name, found := strings.CutPrefix(words[0], "bin/"); found {
		words[0] = filepath.Join(bin, name)
	}
	r := &running{command: exec.Command(words[0], words[1:]...), done: make(chan struct{})}
	r.command.Dir, r.command.Stdout, r.command.Stderr = root, r, r
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
	tick, deadline := time.NewTicker(50*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for {
		if found := regexp.MustCompile(expression).FindStringSubmatch(r.text()); found != nil {
			return found[1]
		}
		select {
		case <-tick.C:
		case <-r.done:
			t.Fatalf("%s has ended:\n%s", r.command, r.text())
		case <-deadline:
			t.Fatalf("%s does not say %s:\n%s", r.command, expression, r.text())
		}
	}
}

// answer asks the API server what a `kubectl get` asks it, and wants at least one object: kubectl itself is not part of the
// project.
func answer(t *testing.T, kubeconfig, command string, get Get) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := restmapper.GetAPIGroupResources(found)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	resource, err := mapper.ResourceFor(schema.GroupVersionResource{Resource: get.Resource})
	if err != nil {
		t.Errorf("%s: %v", command, err)
		return
	}
	namespace := get.Namespace
	if kind, err := mapper.KindFor(resource); err == nil && namespace == "" {
		if mapping, err := mapper.RESTMapping(kind.GroupKind()); err == nil && mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			namespace = metav1.NamespaceDefault
		}
	}
	objects := client.Resource(resource).Namespace(namespace)
	if get.Name != "" {
		if _, err := objects.Get(t.Context(), get.Name, metav1.GetOptions{}); err != nil {
			t.Errorf("%s: %v", command, err)
		}
		return
	}
	list, err := objects.List(t.Context(), metav1.ListOptions{FieldSelector: get.FieldSelector})
	if err != nil || len(list.Items) == 0 {
		t.Errorf("%s shows nothing (%v)", command, err)
	}
}
