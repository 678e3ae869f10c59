package worker

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
)

// Cgroups are the names of control groups that a kubelet makes when it is set up to run pods.
var Cgroups = []string{"kubepods", "kubepods.slice", "kubelet"}

// PodCgroup is the name of the control group in which containerd has all Pods of all kubelets here, because they have no control groups of their own.
// A sandbox in which Pods run has it alone.
const PodCgroup = "k8s.io"

// Dirs are written by a kubelet whatever --root-dir says.
var Dirs = []string{"/var/lib/kubelet"}

// Sysctls are what a kubelet wants of the whole machine, and sets when it finds another value.
var Sysctls = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// PauseImage is the image that keeps the namespaces of each Pod. Tests that run Pods bring it.
const PauseImage = "localhost/pause:test"

// Kubelet is a node to be: its name, and what its kubelet gets as --node-ip.
type Kubelet struct {
	Name    string
	NodeIPs []netip.Addr
	// ServerTLSBootstrap has it ask for a serving certificate, and serve none of its own.
	ServerTLSBootstrap bool
	// Args are further arguments.
	Args []string
}

// NodeIP is the value of --node-ip, and of the annotation that hints it to the cloud controller manager.
func (k Kubelet) NodeIP() string {
	var texts []string
	for _, addr := range k.NodeIPs {
		texts = append(texts, addr.String())
	}
	return strings.Join(texts, ",")
}

// Containerd is a container runtime.
type Containerd struct {
	// Name is what it is called, and its log is.
	Name string
	// Inside are words before its command line that put it into a network. Empty: it is the test's own.
	Inside []string
	// Snapshotter is how it keeps the file systems of containers.
	Snapshotter string
	// Plugins is a folder of network plugins, and Network a template of their configuration, which it fills with the pod CIDRs of the node.
	// Empty: Pods have the network of the host.
	Plugins, Network string
}

// StartContainerd starts the container runtime that all kubelets share, and returns its socket. It has a network
// configuration, without which a node does not become ready; Pods have the network of the host.
func StartContainerd(t *testing.T, dir string) (*Program, string) {
	t.Helper()
	return Containerd{Name: "containerd", Snapshotter: "native"}.Start(t, dir)
}

// Start starts it with its files in dir, and returns its socket when it listens.
func (c Containerd) Start(t *testing.T, dir string) (*Program, string) {
	t.Helper()
	socket, networks, template := filepath.Join(dir, "containerd.sock"), filepath.Join(dir, "cni"), ""
	if c.Network == "" {
		write(t, filepath.Join(networks, "10-none.conflist"), `{"cniVersion": "0.4.0", "name": "none", "plugins": [{"type": "loopback"}]}`)
	} else {
		template = filepath.Join(dir, "cni.template")
		write(t, template, c.Network)
	}
	write(t, filepath.Join(dir, "containerd.toml"), fmt.Sprintf(`version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]
[grpc]
  address = %q
[ttrpc]
  address = %q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = %q
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = %q
  conf_dir = %q
  conf_template = %q
[plugins."io.containerd.internal.v1.opt"]
  path = %q
`, filepath.Join(dir, "root"), filepath.Join(dir, "state"), socket, socket+".ttrpc", PauseImage, c.Snapshotter,
		cmp.Or(c.Plugins, networks), networks, template, filepath.Join(dir, "opt")))
	must.NoError(t, os.MkdirAll(networks, 0o755))
	containerd := Start(t, dir, c.Name, append(slices.Clone(c.Inside), "containerd", "--config", filepath.Join(dir, "containerd.toml"))...)
	Poll(t, c.Name+" listens", []*Program{containerd}, func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		if err == nil {
			err = connection.Close()
		}
		return err
	})
	return containerd, socket
}

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://%[1]s
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %[4]s}}
authorization: {mode: Webhook}
# The few pods of a test need no limits by control groups.
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
# Settings of the whole machine are not to be changed.
protectKernelDefaults: true
# The disk of the machine that runs the test says nothing about the node.
evictionHard: {memory.available: "0%%", nodefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.available: "0%%", imagefs.inodesFree: "0%%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
nodeStatusUpdateFrequency: 1s
podLogsDir: %[2]s/pod-logs
volumePluginDir: %[2]s/volume-plugins
readOnlyPort: 0
resolvConf: ""
serverTLSBootstrap: %[3]t
`

// StartKubelet starts a kubelet on its host, with the identity of its node.
func StartKubelet(t *testing.T, cluster *localcluster.Cluster, host *sandbox.Host, k Kubelet, dir, socket string) *Program {
	t.Helper()
	kubeconfig, err := cluster.UserKubeconfig("system:node:"+k.Name, "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "config.yaml"), fmt.Sprintf(kubeletConfig, socket, dir, k.ServerTLSBootstrap, filepath.Join(cluster.Dir(), "pki", "ca.crt")))
	args := append(host.Args(), localclustertest.Build(t, localcluster.Node).Program("kubelet"),
		"--config="+filepath.Join(dir, "config.yaml"),
		"--kubeconfig="+kubeconfig,
		"--root-dir="+filepath.Join(dir, "root"),
		"--cert-dir="+filepath.Join(dir, "certs"),
		"--hostname-override="+k.Name,
		"--cloud-provider=external",
	)
	if len(k.NodeIPs) > 0 {
		args = append(args, "--node-ip="+k.NodeIP())
	}
	args = append(args, k.Args...)
	return Start(t, dir, "kubelet-"+k.Name, args...)
}
