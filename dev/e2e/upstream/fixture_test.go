package upstream_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/e2e/rack"
	"github.com/mooring-ccm/mooring/dev/e2e/router"
	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/e2e/upstream/build"
	"github.com/mooring-ccm/mooring/dev/e2e/worker"
	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

const (
	// replicas is how many managers there are.
	replicas = 2
	// These variables tell the inside of the sandbox where programs, images and the cloud-controller-manager are.
	programsVariable = "MOORING_TEST_UPSTREAM_PROGRAMS"
	imagesVariable   = "MOORING_TEST_UPSTREAM_IMAGES"
	managerVariable  = "MOORING_TEST_MANAGER"
	// plugins is where Debian has the network plugins of containers.
	plugins = "/usr/lib/cni"
)

var (
	// The client's addresses with layer 2: it is on the segment then.
	neighbor4, neighbor6 = netip.MustParsePrefix("10.78.100.10/16"), netip.MustParsePrefix("fd00:78::64:10/64")
	pools                = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8:1::/112")}
	poolsOnSegment       = []string{"10.78.200.1-10.78.200.250", "fd00:78::c8:1-fd00:78::c8:ff"}
	controlGroups        = "/sys/fs/cgroup"
)

// machine is a machine of the inventory, and its node.
type machine struct {
	rack.Machine
	programs []*worker.Program // which end with it
}

// fixture is everything that runs in the sandbox.
type fixture struct {
	setup
	dir      string
	bin      string // the folder of Kubernetes' programs
	images   string // the folder of images
	manager  string // the cloud-controller-manager
	segment  *sandbox.Segment
	cluster  *localcluster.Cluster
	client   kubernetes.Interface
	router   *router.Router
	outside  *sandbox.Host // where the client is
	machines []*machine
	programs []*worker.Program
	cloud    *simtest.Cloud // if it is simulated
	// deletions is the socket through which names of machines come that are to be deleted.
	deletions string
}

// enter runs the calling test in a sandbox, and returns the fixture inside, nil outside.
func enter(t *testing.T, s setup) *fixture {
	t.Helper()
	if !sandbox.Inside() {
		sandbox.Require(t, append(router.Programs(s.router), "containerd", "ctr", "runc", "nft", "iptables", "conntrack",
			filepath.Join(plugins, "ptp"), "curl", "nc.openbsd", "ss", "wget")...)
		localclustertest.Build(t, localcluster.Parts()...)
		sandbox.Run(t, sandbox.Options{
			Env: prepare(t), Sysctls: worker.Sysctls, Cgroups: worker.Cgroups, Alone: []string{worker.PodCgroup},
			Dirs:    slices.Concat(router.Dirs(), worker.Dirs, []string{"/var/log/containers", "/var/log/pods", "/var/lib/cni"}),
			Timeout: 40 * time.Minute,
		})
		return nil
	}
	l := &fixture{setup: s, dir: sandbox.Furnish(t), bin: os.Getenv(programsVariable), images: os.Getenv(imagesVariable), manager: os.Getenv(managerVariable)}
	t.Cleanup(func() { removeCgroups(t) })
	l.startControlPlane(t)
	l.startRouter(t)
	l.startNodes(t)
	l.startManagers(t)
	t.Cleanup(func() {
		if t.Failed() {
			for _, program := range l.programs {
				t.Logf("the end of the log of %s:\n%s", program.Name, program.Tail())
			}
		}
	})
	l.awaitNodes(t)
	l.serveDeletions(t)
	return l
}

// prepare builds what runs in the sandbox, and returns the variables that say where it is.
func prepare(t *testing.T) []string {
	t.Helper()
	bin, dir := must.Value(build.Programs(t.Context(), os.Stderr))(t), t.TempDir()
	manager := filepath.Join(dir, "cloud-controller-manager")
	must.NoError(t, harness.BuildDaemon(t.Context(), manager, os.Stderr))
	writeImages(t, bin, dir)
	return []string{programsVariable + "=" + bin, imagesVariable + "=" + dir, managerVariable + "=" + manager}
}

// cidrs are the ranges of pods.
func (l *fixture) cidrs() string {
	if l.single {
		return rack.PodCIDR4.String()
	}
	return rack.PodCIDR4.String() + "," + rack.PodCIDR6.String()
}

func (l *fixture) program(name string) string { return filepath.Join(l.bin, name) }

func (l *fixture) start(t *testing.T, name string, args ...string) *worker.Program {
	t.Helper()
	program := worker.Start(t, l.dir, name, args...)
	l.programs = append(l.programs, program)
	return program
}

// startControlPlane starts Kubernetes' control plane with a scheduler, and the cluster's DNS.
func (l *fixture) startControlPlane(t *testing.T) {
	t.Helper()
	l.segment = sandbox.NewSegment(t, rack.ControlPlane4, rack.ControlPlane6)
	l.cluster = localclustertest.Start(t, localclustertest.WithControllerManager, func(options *localcluster.Options) {
		options.Dir = filepath.Join(l.dir, "controlplane")
		options.BindAddress = rack.ControlPlane4.Addr()
		options.NodeMonitorPeriod = 5 * time.Second
		options.APIServerArgs = []string{
			"--service-cluster-ip-range=" + rack.ServiceCIDR, "--allow-privileged=true",
			"--endpoint-reconciler-type=lease", "--advertise-address=" + rack.ControlPlane4.Addr().String(),
			"--kubelet-certificate-authority=" + filepath.Join(options.Dir, "pki", "ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		}
		options.ControllerManagerArgs = []string{
			"--service-cluster-ip-range=" + rack.ServiceCIDR, "--allocate-node-cidrs=true", "--cluster-cidr=" + l.cidrs(),
		}
		if !l.single {
			options.ControllerManagerArgs = append(options.ControllerManagerArgs, "--node-cidr-mask-size-ipv4=24", "--node-cidr-mask-size-ipv6=64")
		}
	})
	l.client = kubernetes.NewForConfigOrDie(l.cluster.AdminConfig())
	kubeconfig := must.Value(l.cluster.UserKubeconfig("system:kube-scheduler"))(t)
	l.start(t, "kube-scheduler", l.program("scheduler"), "--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig, "--leader-elect=false", "--secure-port=0")
	corefile := filepath.Join(l.dir, "Corefile")
	must.NoError(t, os.WriteFile(corefile, fmt.Appendf(nil, `.:53 {
    bind %s %s
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig %s
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
    }
    cache 5
}
`, rack.ControlPlane4.Addr(), rack.ControlPlane6.Addr(), l.cluster.AdminKubeconfig()), 0o600))
	l.start(t, "coredns", l.program("coredns"), "-conf", corefile)
}

// startRouter makes the router, and the client's network.
func (l *fixture) startRouter(t *testing.T) {
	t.Helper()
	l.router = rack.StartRouter(t, l.segment, l.setup.router, replicas, l.dir)
	if l.layer2 {
		l.outside = l.segment.NewHost(t, "client", neighbor4, neighbor6)
		sandbox.Command(t, append(l.outside.Args(), "ip", "route", "replace", "default", "via", rack.Router4.Addr().String())...)
	} else {
		l.outside = rack.NewClient(t, l.router)
	}
	if l.byAddress {
		sandbox.Command(t, append(l.router.Host.Args(), "sysctl", "-q", "-w", "net.ipv4.fib_multipath_hash_policy=0", "net.ipv6.fib_multipath_hash_policy=0")...)
	}
	// The API server reaches pods, and the client, through the router.
	for _, to := range []netip.Prefix{rack.PodCIDR4, rack.Client4.Masked()} {
		sandbox.Command(t, "ip", "route", "add", to.String(), "via", rack.Router4.Addr().String())
	}
	for _, to := range []netip.Prefix{rack.PodCIDR6, rack.Client6.Masked()} {
		sandbox.Command(t, "ip", "-6", "route", "add", to.String(), "via", rack.Router6.Addr().String())
	}
}

// network is a template of a configuration in which each pod has a link of its own to the node, so everything is routed.
const network = `{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "ptp", "ipMasq": false, "mtu": 1500, "ipam": {"type": "host-local", "dataDir": %q,
    "ranges": [{{range $i, $r := .PodCIDRRanges}}{{if $i}}, {{end}}[{"subnet": "{{$r}}"}]{{end}}],
    "routes": [{"dst": "0.0.0.0/0"}{{if gt (len .PodCIDRRanges) 1}}, {"dst": "::/0"}{{end}}]}}
]}
`

// startNodes makes the nodes: a container runtime, kube-proxy and a kubelet each.
func (l *fixture) startNodes(t *testing.T) {
	t.Helper()
	for i := 1; i <= rack.Nodes; i++ {
		m := &machine{Machine: rack.NewMachine(t, l.segment, i)}
		l.machines = append(l.machines, m)
		if !l.layer2 && !l.simulated {
			must.NoError(t, m.Host.Blackhole(t.Context(), pools...))
		}
		dir := filepath.Join(l.dir, m.Name)
		l.programs = append(l.programs, worker.StartKubeProxy(t, l.cluster, m.Host, m.Name, l.proxy, l.cidrs(), dir))
		containerd, socket := worker.Containerd{
			Name: "containerd-" + m.Name, Inside: m.Host.Args(), Snapshotter: "overlayfs",
			Plugins: plugins, Network: fmt.Sprintf(network, filepath.Join(dir, "ipam")),
		}.Start(t, filepath.Join(dir, "containerd"))
		for _, image := range must.Value(filepath.Glob(filepath.Join(l.images, "*.tar")))(t) {
			sandbox.Command(t, "ctr", "--address", socket, "--namespace", "k8s.io", "images", "import", "--snapshotter", "overlayfs", image)
		}
		ips := []netip.Addr{m.Addr4().Addr(), m.Addr6().Addr()}
		if l.single {
			ips = ips[:1]
		}
		kubelet := worker.StartKubelet(t, l.cluster, m.Host, worker.Kubelet{
			Name: m.Name, NodeIPs: ips, ServerTLSBootstrap: true,
			Args: []string{"--cluster-dns=" + rack.ControlPlane4.Addr().String(), "--cluster-domain=cluster.local", "--v=2"},
		}, dir, socket)
		m.programs = []*worker.Program{kubelet, containerd}
		l.programs = append(l.programs, m.programs...)
	}
}

// startManagers starts two replicas with the rights that ship, and with the defaults of most flags.
func (l *fixture) startManagers(t *testing.T) {
	t.Helper()
	provider, config, rights := "metal", l.config(), deploy.MetalRBAC
	if l.simulated {
		l.startCloud(t)
		provider, config, rights = "sim", l.cloud.ConfigFile, deploy.RBAC
	} else {
		must.NoError(t, l.writeConfig())
	}
	must.NoError(t, l.cluster.Apply(t.Context(), deploy.With(rights, deploy.ServingCertificateRBAC)))
	kubeconfig := must.Value(l.cluster.ServiceAccountKubeconfig(t.Context(), "kube-system", "cloud-controller-manager"))(t)
	for i := range replicas {
		manager := harness.Manager{
			Name: fmt.Sprintf("ccm%d", i), Dir: l.dir, Path: l.manager, Kubeconfig: kubeconfig, CloudConfig: config,
			Flags: []string{
				"--cloud-provider=" + provider, "--allocate-node-cidrs", "--cluster-cidr=" + l.cidrs(), "--controllers=*,kubelet-serving-certificate", "--v=2",
			},
		}
		if !l.simulated { // it is where the simulated cloud listens
			manager.Inside, manager.Port = rack.NewReplica(t, l.segment, i).Args(), 10258
		}
		l.programs = append(l.programs, worker.StartManager(t, manager))
	}
}

func (l *fixture) config() string { return filepath.Join(l.dir, "cloud.yaml") }

// writeConfig writes the cloud config with the machines that there are.
func (l *fixture) writeConfig() error {
	var inventory strings.Builder
	for _, m := range l.machines {
		six := fmt.Sprintf(", {address: %q}", m.Addr6().Addr())
		if l.single {
			six = ""
		}
		fmt.Fprintf(&inventory, "  - {name: %s, id: serial-%d, zone: rack-%d, machineType: r640, addresses: [{address: %s}%s]}\n",
			m.Name, m.Index, m.Index, m.Addr4().Addr(), six)
	}
	addresses, layer2 := []string{pools[0].String(), pools[1].String()}, ""
	if l.layer2 {
		addresses, layer2 = poolsOnSegment, "l2: {pools: [public]}\n"
	}
	text := fmt.Sprintf(`apiVersion: metal.mooring.dev/v1alpha1
kind: MetalCloudConfig
inventory:
  defaults: {region: basement}
  machines:
%spools:
- name: public
  addresses: [%q, %q]
bgp:
  asn: %d
  peers: [{name: rtr, address: %s, asn: %d}]
%s`, inventory.String(), addresses[0], addresses[1], rack.ASN, rack.Router4.Addr(), rack.ASN, layer2)
	if err := os.WriteFile(l.config()+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(l.config()+".new", l.config())
}

// awaitNodes waits until all nodes are ready, and Mooring has initialized them.
func (l *fixture) awaitNodes(t *testing.T) {
	t.Helper()
	took := poll.Within(t, 3*time.Minute, "all nodes are ready", func(ctx context.Context) error {
		list, err := l.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var wrong []error
		if len(list.Items) != rack.Nodes {
			wrong = append(wrong, fmt.Errorf("there are %d nodes", len(list.Items)))
		}
		for _, node := range list.Items {
			ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			})
			if !ready || len(node.Spec.Taints) > 0 {
				wrong = append(wrong, fmt.Errorf("node %s: taints %v, conditions %v", node.Name, node.Spec.Taints, node.Status.Conditions))
			}
		}
		return errors.Join(wrong...)
	})
	t.Logf("the nodes are ready after %s", took.Round(time.Second))
	t.Cleanup(func() { l.deletePods(t) })
}

// serveDeletions deletes machines whose names come through a socket. It answers with what went wrong.
func (l *fixture) serveDeletions(t *testing.T) {
	t.Helper()
	l.deletions = filepath.Join(l.dir, "delete.sock")
	listener := must.Value((&net.ListenConfig{}).Listen(t.Context(), "unix", l.deletions))(t)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			name, err := bufio.NewReader(connection).ReadString('\n')
			if err == nil {
				err = l.deleteMachine(t.Context(), strings.TrimSpace(name))
			}
			if err != nil {
				fmt.Fprint(connection, err)
			}
			_ = connection.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-served
	})
}

// deleteMachine ends what runs on a machine, and takes it out of the inventory, as an operator does.
func (l *fixture) deleteMachine(ctx context.Context, name string) error {
	i := slices.IndexFunc(l.machines, func(m *machine) bool { return m.Name == name })
	if i < 0 {
		return fmt.Errorf("there is no machine %q", name)
	}
	for _, program := range l.machines[i].programs {
		program.Kill()
		l.programs = slices.DeleteFunc(l.programs, func(p *worker.Program) bool { return p == program })
	}
	gone := l.machines[i]
	l.machines = slices.Delete(l.machines, i, i+1)
	if err := l.segment.Cut(ctx, gone.Host); err != nil {
		return err
	}
	if !l.simulated {
		return l.writeConfig()
	}
	instance, err := l.cloud.Client.GetInstanceByName(ctx, name)
	if err == nil {
		err = l.cloud.Client.DeleteInstance(ctx, instance.ID, instance.Generation)
	}
	return err
}

// deletePods has the kubelets end what still runs, so no process and no control group stays.
func (l *fixture) deletePods(t *testing.T) {
	t.Helper()
	poll.Until(t, "all pods are gone", func(ctx context.Context) error {
		pods, err := l.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, pod := range pods.Items {
			_ = l.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
			err = errors.Join(err, fmt.Errorf("pod %s/%s", pod.Namespace, pod.Name))
		}
		return err
	})
}

// removeCgroups ends what is left of containers, of a machine that was deleted or of Pods whose kubelet ended first, and removes their control
// groups, the deepest first.
func removeCgroups(t *testing.T) {
	t.Helper()
	poll.Until(t, "the control groups of containers can be removed", func(context.Context) error {
		var found []string
		err := filepath.WalkDir(controlGroups, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err == nil && entry.IsDir() && strings.Contains(path+"/", "/"+worker.PodCgroup+"/"):
				found = append(found, path)
			}
			return err
		})
		for _, path := range slices.Backward(found) {
			processes, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			for line := range strings.FieldsSeq(string(processes)) {
				if pid, err := strconv.Atoi(line); err == nil && pid > 0 {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			err = errors.Join(err, os.Remove(path))
		}
		return err
	})
}
