package ccm_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/localcluster/poll"
)

// journalProvider is the name of a plugin that writes what happens to it into a file. It does not know this project.
const journalProvider = "journal"

func init() {
	cloudprovider.RegisterCloudProvider(journalProvider, newJournalCloud)
}

// journalConfig is the plugin's --cloud-config.
type journalConfig struct {
	// Journal is the file that the plugin writes to.
	Journal string `json:"journal"`
	// Hang makes Initialize wait for the stop channel.
	Hang bool `json:"hang"`
	// Linger makes an informer of the plugin's busy until the stop channel is closed, and then write who holds the Lease. The
	// manager waits for informers, so that this is written before anything that comes after.
	Linger bool `json:"linger"`
	// NoClusterID makes HasClusterID say so.
	NoClusterID bool `json:"noClusterID"`
	// Nothing makes the factory return no plugin.
	Nothing bool `json:"nothing"`
}

// journal is a file to which processes append lines; the order of its lines is the order of events.
type journal string

// write appends a line: the process, then what happened.
func (j journal) write(format string, args ...any) {
	if j == "" {
		return
	}
	file, err := os.OpenFile(string(j), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	fmt.Fprintf(file, "%d %s\n", os.Getpid(), fmt.Sprintf(format, args...))
}

// entry is one line of a journal.
type entry struct {
	pid  int
	what string
}

// read returns all entries so far.
func (j journal) read(t *testing.T) []entry {
	t.Helper()
	file, err := os.Open(string(j))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var entries []entry
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var one entry
		if _, err := fmt.Sscanf(lines.Text(), "%d", &one.pid); err != nil {
			t.Fatalf("line %q: %v", lines.Text(), err)
		}
		_, one.what, _ = strings.Cut(lines.Text(), " ")
		entries = append(entries, one)
	}
	return entries
}

// of returns what a process wrote, without its beats.
func (j journal) of(t *testing.T, pid int) []string {
	t.Helper()
	var whats []string
	for _, one := range j.read(t) {
		if one.pid == pid && one.what != beat {
			whats = append(whats, one.what)
		}
	}
	return whats
}

// awaitEntry waits until the process has written the entry.
func (j journal) awaitEntry(t *testing.T, pid int, what string) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("process %d writes %q", pid, what), func(context.Context) error {
		if whats := j.of(t, pid); !slices.Contains(whats, what) {
			return fmt.Errorf("it wrote %q", whats)
		}
		return nil
	})
}

// awaitAny waits until some process has written the entry.
func (j journal) awaitAny(t *testing.T, what string) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("somebody writes %q", what), func(context.Context) error {
		if !slices.ContainsFunc(j.read(t), func(one entry) bool { return one.what == what }) {
			return errors.New("nobody did")
		}
		return nil
	})
}

// cloudConfig writes a --cloud-config with a journal of its own, and returns the path and the journal.
func cloudConfig(t *testing.T, change func(*journalConfig)) (path string, written journal) {
	t.Helper()
	dir := t.TempDir()
	settings := journalConfig{Journal: filepath.Join(dir, "journal")}
	if change != nil {
		change(&settings)
	}
	text, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "cloud.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, journal(settings.Journal)
}

// journalCloud is the plugin.
type journalCloud struct {
	settings journalConfig
	journal  journal
	clients  cloudprovider.ControllerClientBuilder
	stop     <-chan struct{}
}

func newJournalCloud(config io.Reader) (cloudprovider.Interface, error) {
	if config == nil {
		return nil, errors.New("journal: required; it is the file to write to")
	}
	var settings journalConfig
	decoder := json.NewDecoder(config)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&settings); err != nil {
		return nil, errors.Join(err, errors.New("journal: required; it is the file to write to"))
	}
	if settings.Nothing {
		return nil, nil
	}
	cloud := &journalCloud{settings: settings, journal: journal(settings.Journal)}
	cloud.journal.write("new")
	return cloud, nil
}

func (c *journalCloud) ProviderName() string { return journalProvider }

func (c *journalCloud) HasClusterID() bool {
	c.journal.write("HasClusterID")
	return !c.settings.NoClusterID
}

func (c *journalCloud) Initialize(clients cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	c.journal.write("Initialize")
	if _, err := clients.Client("journal"); err != nil {
		c.journal.write("no client: %v", err)
	}
	c.clients, c.stop = clients, stop
	if !c.settings.Linger {
		go func() {
			<-stop
			c.journal.write("stop channel closed")
		}()
	}
	if c.settings.Hang {
		<-stop
	}
}

func (c *journalCloud) SetInformers(factory informers.SharedInformerFactory) {
	c.journal.write("SetInformers")
	nodes := factory.Core().V1().Nodes().Informer()
	if !c.settings.Linger {
		return
	}
	_, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
		c.journal.write(lingers)
		<-c.stop
		c.journal.write("stop channel closed, lease %s", leaseHolder(c.clients))
	}})
	if err != nil {
		c.journal.write("no handler: %v", err)
	}
}

// lingers is what the plugin writes when its informer has something to do.
const lingers = "the informer is busy"

var _ cloudprovider.InformerUser = &journalCloud{}

// The plugin offers nothing else, and writes down who asks.

func (c *journalCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	c.journal.write("LoadBalancer")
	return nil, false
}

func (c *journalCloud) Instances() (cloudprovider.Instances, bool) {
	c.journal.write("Instances")
	return nil, false
}

func (c *journalCloud) InstancesV2() (cloudprovider.InstancesV2, bool) {
	c.journal.write("InstancesV2")
	return nil, false
}

func (c *journalCloud) Zones() (cloudprovider.Zones, bool) {
	c.journal.write("Zones")
	return nil, false
}

func (c *journalCloud) Clusters() (cloudprovider.Clusters, bool) {
	c.journal.write("Clusters")
	return nil, false
}

func (c *journalCloud) Routes() (cloudprovider.Routes, bool) {
	c.journal.write("Routes")
	return nil, false
}
