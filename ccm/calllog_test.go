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

	"github.com/mooring-ccm/mooring/dev/poll"
)

// callLogProvider is the name of a plugin that writes what happens to it into a file. It does not know this project.
const callLogProvider = "callLog"

func init() {
	cloudprovider.RegisterCloudProvider(callLogProvider, newCallLogCloud)
}

// callLogConfig is the plugin's --cloud-config.
type callLogConfig struct {
	// CallLog is the file that the plugin writes to.
	CallLog string `json:"callLog"`
	// Hang makes Initialize wait for the stop channel.
	Hang bool `json:"hang"`
	// Linger makes an informer of the plugin's busy until the stop channel is closed, and then write who holds the Lease. The
	// manager waits for informers, so this is written before anything that comes after.
	Linger bool `json:"linger"`
	// NoClusterID makes HasClusterID say so.
	NoClusterID bool `json:"noClusterID"`
	// Nothing makes the factory return no plugin.
	Nothing bool `json:"nothing"`
	// Password is repeated by the error of the factory or, if it begins with "late", by a panic of Initialize.
	Password string `json:"password,omitempty"`
}

// call log is a file to which processes append lines; the order of its lines is the order of events.
type callLog string

// write appends a line: the process, then what happened.
func (l callLog) write(format string, args ...any) {
	if l == "" {
		return
	}
	file, err := os.OpenFile(string(l), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	fmt.Fprintf(file, "%d %s\n", os.Getpid(), fmt.Sprintf(format, args...))
}

// entry is one line of a call log.
type entry struct {
	pid  int
	what string
}

// read returns all entries so far.
func (l callLog) read(t *testing.T) []entry {
	t.Helper()
	file, err := os.Open(string(l))
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
func (l callLog) of(t *testing.T, pid int) []string {
	t.Helper()
	var whats []string
	for _, one := range l.read(t) {
		if one.pid == pid && one.what != beat {
			whats = append(whats, one.what)
		}
	}
	return whats
}

// awaitEntry waits until the process has written the entry.
func (l callLog) awaitEntry(t *testing.T, pid int, what string) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("process %d writes %q", pid, what), func(context.Context) error {
		if whats := l.of(t, pid); !slices.Contains(whats, what) {
			return fmt.Errorf("it wrote %q", whats)
		}
		return nil
	})
}

// awaitAny waits until some process has written the entry.
func (l callLog) awaitAny(t *testing.T, what string) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("a manager writes %q", what), func(context.Context) error {
		if !slices.ContainsFunc(l.read(t), func(one entry) bool { return one.what == what }) {
			return errors.New("no manager did")
		}
		return nil
	})
}

// cloudConfig writes a --cloud-config with a call log of its own, and returns the path and the call log.
func cloudConfig(t *testing.T, change func(*callLogConfig)) (path string, written callLog) {
	t.Helper()
	dir := t.TempDir()
	settings := callLogConfig{CallLog: filepath.Join(dir, "callLog")}
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
	return path, callLog(settings.CallLog)
}

// callLogCloud is the plugin.
type callLogCloud struct {
	settings callLogConfig
	callLog  callLog
	clients  cloudprovider.ControllerClientBuilder
	stop     <-chan struct{}
}

func newCallLogCloud(config io.Reader) (cloudprovider.Interface, error) {
	if config == nil {
		return nil, errors.New("callLog: required; it is the file to write to")
	}
	var settings callLogConfig
	decoder := json.NewDecoder(config)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&settings); err != nil {
		return nil, errors.Join(err, errors.New("callLog: required; it is the file to write to"))
	}
	switch late := strings.HasPrefix(settings.Password, "late"); {
	case settings.Nothing:
		return nil, nil
	case settings.Password != "" && !late:
		return nil, fmt.Errorf("logging in with %q: denied", settings.Password)
	}
	cloud := &callLogCloud{settings: settings, callLog: callLog(settings.CallLog)}
	cloud.callLog.write("new")
	return cloud, nil
}

func (c *callLogCloud) ProviderName() string { return callLogProvider }

func (c *callLogCloud) HasClusterID() bool {
	c.callLog.write("HasClusterID")
	return !c.settings.NoClusterID
}

func (c *callLogCloud) Initialize(clients cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	c.callLog.write("Initialize")
	if c.settings.Password != "" {
		panic(fmt.Sprintf("logging in with %q: denied", c.settings.Password))
	}
	if _, err := clients.Client("callLog"); err != nil {
		c.callLog.write("no client: %v", err)
	}
	c.clients, c.stop = clients, stop
	if !c.settings.Linger {
		go func() {
			<-stop
			c.callLog.write("stop channel closed")
		}()
	}
	if c.settings.Hang {
		<-stop
	}
}

func (c *callLogCloud) SetInformers(factory informers.SharedInformerFactory) {
	c.callLog.write("SetInformers")
	nodes := factory.Core().V1().Nodes().Informer()
	if !c.settings.Linger {
		return
	}
	_, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
		c.callLog.write(lingers)
		<-c.stop
		c.callLog.write("stop channel closed, lease %s", leaseHolder(c.clients))
	}})
	if err != nil {
		c.callLog.write("no handler: %v", err)
	}
}

// lingers is what the plugin writes when its informer has something to do.
const lingers = "the informer is busy"

var _ cloudprovider.InformerUser = &callLogCloud{}

// The plugin offers nothing else, and writes down who asks.

func (c *callLogCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	c.callLog.write("LoadBalancer")
	return nil, false
}

func (c *callLogCloud) Instances() (cloudprovider.Instances, bool) {
	c.callLog.write("Instances")
	return nil, false
}

func (c *callLogCloud) InstancesV2() (cloudprovider.InstancesV2, bool) {
	c.callLog.write("InstancesV2")
	return nil, false
}

func (c *callLogCloud) Zones() (cloudprovider.Zones, bool) {
	c.callLog.write("Zones")
	return nil, false
}

func (c *callLogCloud) Clusters() (cloudprovider.Clusters, bool) {
	c.callLog.write("Clusters")
	return nil, false
}

func (c *callLogCloud) Routes() (cloudprovider.Routes, bool) {
	c.callLog.write("Routes")
	return nil, false
}
