package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/mooring-ccm/mooring/dev/poll"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fleet is a cloud config with machines of these names, addresses and further fields.
func fleet(machines ...string) string {
	var text strings.Builder
	text.WriteString(head + "inventory:\n  machines:\n")
	for _, machine := range machines {
		name, fields, _ := strings.Cut(machine, " ")
		fmt.Fprintf(&text, "  - {name: %s, addresses: [{address: 10.0.0.%s}], %s}\n", name, strings.TrimPrefix(name, "n"), fields)
	}
	return text.String()
}

// names are the names of the machines.
func names(config *CloudConfig) string {
	var all []string
	for _, machine := range config.Inventory.Machines {
		all = append(all, machine.Name)
	}
	return strings.Join(all, " ")
}

// following is a source that follows its files until the test ends.
type following struct {
	*Source
	t        *testing.T
	mu       sync.Mutex
	notified []string
	logs     []string
}

func follow(t *testing.T, source *Source) *following {
	t.Helper()
	f := &following{Source: source, t: t}
	note := func(into *[]string, line string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		*into = append(*into, line)
	}
	cancel := source.Subscribe(func(config *CloudConfig) { note(&f.notified, names(config)) })
	log := funcr.New(func(_, args string) { note(&f.logs, args) }, funcr.Options{})
	ctx, stop := context.WithCancel(logr.NewContext(t.Context(), log))
	done := make(chan error, 1)
	go func() { done <- source.Run(ctx, nil) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
		cancel()
	})
	return f
}

// eventually waits until a condition holds.
func (f *following) eventually(what string, holds func() bool) {
	f.t.Helper()
	poll.Until(f.t, what, func(context.Context) error {
		if holds() {
			return nil
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		return fmt.Errorf("machines %q, failure %v, notified %q, logs %q", names(f.Current()), f.Failure(), f.notified, f.logs)
	})
}

// replace writes a file beside the other and moves it there, as editors do.
func replace(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path+".tmp", []byte(content), 0o600), os.Rename(path+".tmp", path)); err != nil {
		t.Fatal(err)
	}
}

func TestChangesAreFollowed(t *testing.T) {
	dir := write(t, map[string]string{
		"config.yaml":  fleet("n1") + "  paths: [racks, ./lists/one.yaml]\n",
		"racks/a.yaml": listHead + "machines: [{name: n2, addresses: [{address: 10.0.0.2}]}]", "lists/one.yaml": listHead,
	})
	path := filepath.Join(dir, "config.yaml")
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	source, err := Open(file)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	Register(source, registry)
	f := follow(t, source)
	is := func(want string) func() bool { return func() bool { return names(f.Current()) == want } }

	replace(t, path, fleet("n1", "n4")+"  paths: [racks, ./lists/one.yaml]\n")
	f.eventually("a machine in the file", is("n1 n4 n2"))
	replace(t, filepath.Join(dir, "racks/b.yaml"), listHead+"machines: [{name: n5, addresses: [{address: 10.0.0.5}]}]")
	f.eventually("a new list in a folder", is("n1 n4 n2 n5"))
	replace(t, filepath.Join(dir, "lists/one.yaml"), listHead+"machines: [{name: n6, addresses: [{address: 10.0.0.6}]}]")
	f.eventually("a list that is named", is("n1 n4 n2 n5 n6"))
	if err := os.Remove(filepath.Join(dir, "racks/a.yaml")); err != nil {
		t.Fatal(err)
	}
	f.eventually("a list less", is("n1 n4 n5 n6"))

	metrics := func(failed, applied, refused, machines int) string {
		return fmt.Sprintf(`
# HELP mooring_metal_config_loads_total How often changed files were loaded, by result: applied or refused.
# TYPE mooring_metal_config_loads_total counter
mooring_metal_config_loads_total{result="applied"} %d
mooring_metal_config_loads_total{result="refused"} %d
# HELP mooring_metal_config_reload_failed Whether the cloud config or a list of machines has changed in a way that is not taken: 1, or 0 if the files are in force.
# TYPE mooring_metal_config_reload_failed gauge
mooring_metal_config_reload_failed %d
# HELP mooring_metal_machines Machines in the inventory.
# TYPE mooring_metal_machines gauge
mooring_metal_machines %d
`, applied, refused, failed, machines)
	}
	compare := func(want string) { // a config is in force before it is counted
		t.Helper()
		poll.Until(t, "the metrics", func(context.Context) error {
			return testutil.GatherAndCompare(registry, strings.NewReader(want),
				"mooring_metal_config_loads_total", "mooring_metal_config_reload_failed", "mooring_metal_machines")
		})
	}
	compare(metrics(0, 5, 0, 4))
	replace(t, filepath.Join(dir, "racks/b.yaml"), listHead+"machines: [{name: n5, addresses: [], zoen: x}]")
	f.eventually("a wrong list", func() bool { return f.Failure() != nil })
	if message := f.Failure().Error(); !strings.Contains(message, "racks/b.yaml: machines[0].zoen") || !is("n1 n4 n5 n6")() {
		t.Errorf("failure %s, machines %s", message, names(f.Current()))
	}
	compare(metrics(1, 5, 1, 4))
	if source.Reload(t.Context()) == nil {
		t.Error("Reload forgets the failure when nothing has changed")
	}
	compare(metrics(1, 5, 1, 4))
	replace(t, filepath.Join(dir, "racks/b.yaml"), listHead+"machines: [{name: n5, addresses: [{address: 10.0.0.5}]}]")
	f.eventually("the list is right again", func() bool { return f.Failure() == nil })
	compare(metrics(0, 6, 1, 4))

	want := []string{"n1 n4 n2", "n1 n4 n2 n5", "n1 n4 n2 n5 n6", "n1 n4 n5 n6", "n1 n4 n5 n6"}
	f.eventually("the subscriber is notified of each", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return slices.Equal(f.notified, want)
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if refusals := strings.Count(strings.Join(f.logs, "\n"), "Rejected the changed cloud config"); refusals != 1 {
		t.Errorf("%d logs of the refusal, want 1:\n%s", refusals, strings.Join(f.logs, "\n"))
	}
}

// speaks returns a config with a BGP section with these fields and one peer.
func speaks(fields string) string {
	return head + "bgp: {" + fields + ", peers: [{address: 10.0.0.1, asn: 64513}]}\n"
}

// What would cost nodes or sessions by mistake is not taken, and what is meant is.
func TestChangesThatAreNotTaken(t *testing.T) {
	const first, second = "systemUUID: 00112233-4455-6677-8899-aabbccddeeff", "systemUUID: 10112233-4455-6677-8899-aabbccddeeff"
	for name, test := range map[string]struct{ before, after, want string }{
		"no inventory":        {fleet("n1"), head, "inventory: Required value"},
		"a system UUID":       {fleet("n1"), fleet("n1 " + first), `would change from metal://n1 to metal://00112233-4455-6677-8899-aabbccddeeff: set its id to "n1"`},
		"with its id kept":    {fleet("n1"), fleet("n1 id: n1, " + first), ""},
		"another mainboard":   {fleet("n1 " + first), fleet("n1 " + second), ""},
		"another name":        {fleet("n1 " + first), fleet("n2 " + first), ""},
		"the id is left out":  {fleet("n1 id: one"), fleet("n1"), "would change from metal://one to metal://n1"},
		"all machines change": {fleet("n1"), fleet("n2"), ""},
		"another mode": {
			speaks("asn: 64512"), speaks("asn: 64512, mode: GracefulRestart"),
			`bgp.mode: Invalid value: "GracefulRestart": it is ActiveActive in the process that runs`,
		},
		"another AS":             {speaks("asn: 64512"), speaks("asn: 64513"), "bgp.asn: Invalid value: 64513: it is 64512"},
		"another router ID":      {speaks("asn: 64512"), speaks("asn: 64512, routerID: 10.0.0.9"), "bgp.routerID: Invalid value"},
		"another port":           {speaks("asn: 64512"), speaks("asn: 64512, listenPort: 1790"), "bgp.listenPort: Invalid value: 1790: it is -1"},
		"everything of a peer":   {speaks("asn: 64512"), strings.Replace(speaks("asn: 64512"), "asn: 64513", "asn: 64514, holdTime: 90s", 1), ""},
		"what goes with a route": {speaks("asn: 64512"), speaks("asn: 64512, localPreference: 7"), ""},
		"another restart time": {
			speaks("asn: 64512, mode: GracefulRestart"), speaks("asn: 64512, mode: GracefulRestart, restartTime: 60s"), "bgp.restartTime: Invalid value",
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(write(t, map[string]string{"config.yaml": test.before}), "config.yaml")
			source, err := OpenFile(path)
			if err != nil {
				t.Fatal(err)
			}
			before := source.Current()
			replace(t, path, test.after)
			err = source.Reload(t.Context())
			switch {
			case test.want == "" && (err != nil || source.Current() == before):
				t.Errorf("not taken: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || source.Current() != before):
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}
