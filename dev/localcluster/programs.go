package localcluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/mooring-ccm/mooring/dev/program"
)

const (
	// etcdSocket is relative to the working directory of etcd and kube-apiserver. The path of a socket is limited to 108 bytes, and the path of a
	// test's directory is not. No other program can reach or collide with it.
	etcdSocket = "etcd.sock"
	// controllerManagerUser is who kube-controller-manager is; RBAC's default roles know the name.
	controllerManagerUser = "system:kube-controller-manager"

	// privilegedGroup may do everything, on kubelets too.
	privilegedGroup = "system:masters"

	serviceAccountIssuer = "https://kubernetes.default.svc"
)

// serviceRanges are where Services get their addresses, of both families.
var serviceRanges = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:10:96::/112")}

// serviceRangesFor returns the ranges in the order that kube-apiserver demands: the family of its own address comes first.
func serviceRangesFor(bindAddress netip.Addr) []netip.Prefix {
	if bindAddress.Is6() {
		return []netip.Prefix{serviceRanges[1], serviceRanges[0]}
	}
	return serviceRanges
}

// systemNamespaces are what kube-apiserver creates soon after it is ready.
var systemNamespaces = []string{
	metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease",
}

func (c *Cluster) launch(name string, args []string) (*program.Program, error) {
	return program.Start(program.Options{Name: name, Path: c.options.Binaries.Program(name), Args: args, Dir: c.dir, Append: true})
}

func (c *Cluster) pki(name string) string { return filepath.Join(c.dir, "pki", name) }

func (c *Cluster) startEtcd(ctx context.Context) (err error) {
	c.etcd, err = c.launch("etcd", []string{
		"--data-dir=" + filepath.Join(c.dir, "etcd"),
		"--unsafe-no-fsync", // the data need not survive the machine
		"--listen-client-urls=unix://" + etcdSocket,
		"--listen-peer-urls=unix://peer.sock",
		// Required, and must look like host:port; the only member and its only client never use it.
		"--advertise-client-urls=http://localhost:2379",
		"--log-level=warn",
	})
	if err != nil {
		return err
	}
	return program.Await(ctx, "etcd listens", []*program.Program{c.etcd}, func(context.Context) error {
		_, err := os.Stat(filepath.Join(c.dir, etcdSocket))
		return err
	})
}

// writeAPIServerFiles writes what kube-apiserver and kube-controller-manager share.
func (c *Cluster) writeAPIServerFiles() error {
	names := append([]string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		c.options.CertificateNames...)
	addrs := append([]netip.Addr{
		c.options.BindAddress, netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback(),
	}, c.options.CertificateAddrs...)
	for _, services := range serviceRanges {
		addrs = append(addrs, services.Addr().Next()) // the address of the Service kubernetes
	}
	serving, err := c.authority.server("kube-apiserver", names, addrs)
	if err != nil {
		return err
	}
	toKubelets, err := c.authority.client("kube-apiserver-kubelet-client", privilegedGroup)
	if err != nil {
		return err
	}
	_, tokenKey, err := newKey()
	if err != nil {
		return err
	}
	frontProxy, err := newAuthority()
	if err != nil {
		return err
	}
	policy, err := yaml.Marshal(auditPolicy(c.options.Audit))
	if err != nil {
		return fmt.Errorf("encode the audit policy: %w", err)
	}
	for name, content := range map[string][]byte{
		"ca.crt":             c.authority.certPEM,
		"ca.key":             c.authority.keyPEM,
		"kube-apiserver.crt": serving.certPEM,
		"kube-apiserver.key": serving.keyPEM,
		"kubelet-client.crt": toKubelets.certPEM,
		"kubelet-client.key": toKubelets.keyPEM,
		"front-proxy-ca.crt": frontProxy.certPEM,
		"tokens.key":         tokenKey,
		"audit-policy.yaml":  policy,
	} {
		if err := os.WriteFile(c.pki(name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) apiServerArgs() []string {
	services := serviceRangesFor(c.options.BindAddress)
	args := []string{
		"--etcd-servers=unix://" + etcdSocket,
		"--bind-address=" + c.port.addr.Addr().String(),
		fmt.Sprintf("--secure-port=%d", c.port.addr.Port()),
		"--permit-port-sharing=true", // with the socket that reserves the port
		"--tls-cert-file=" + c.pki("kube-apiserver.crt"),
		"--tls-private-key-file=" + c.pki("kube-apiserver.key"),
		"--client-ca-file=" + c.pki("ca.crt"),
		"--kubelet-client-certificate=" + c.pki("kubelet-client.crt"), // whose certificates it verifies is up to APIServerArgs
		"--kubelet-client-key=" + c.pki("kubelet-client.key"),
		// There is no proxy here, but programs with delegated authentication wait for this part of the configuration.
		"--requestheader-client-ca-file=" + c.pki("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--service-account-issuer=" + serviceAccountIssuer,
		"--service-account-signing-key-file=" + c.pki("tokens.key"),
		"--service-account-key-file=" + c.pki("tokens.key"),
		fmt.Sprintf("--service-cluster-ip-range=%s,%s", services[0], services[1]),
		"--endpoint-reconciler-type=none", // an endpoint of the Service kubernetes may not be a loopback address
	}
	if !c.options.ControllerManager {
		// Without kube-controller-manager there are no default service accounts, and this plugin would refuse every pod.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	if audits(c.options.Audit) {
		args = append(args, "--audit-policy-file="+c.pki("audit-policy.yaml"), "--audit-log-path="+c.auditLog(),
			"--audit-log-maxsize="+auditLogSize)
	}
	return append(args, c.options.APIServerArgs...)
}

func (c *Cluster) startAPIServer(ctx context.Context) (err error) {
	if c.apiServer, err = c.launch("kube-apiserver", c.apiServerArgs()); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return err
	}
	processes := []*program.Program{c.apiServer, c.etcd}
	if err := program.Await(ctx, "kube-apiserver is ready", processes, func(ctx context.Context) error {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}); err != nil {
		return err
	}
	return program.Await(ctx, "the system namespaces exist", processes, func(ctx context.Context) error {
		var missing []error
		for _, name := range systemNamespaces {
			_, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			missing = append(missing, err)
		}
		return errors.Join(missing...)
	})
}

func (c *Cluster) controllerManagerArgs() []string {
	args := []string{
		"--kubeconfig=" + c.kubeconfigPath(strings.ReplaceAll(controllerManagerUser, ":", "-")),
		"--leader-elect=false",
		"--secure-port=0",
		"--use-service-account-credentials=true",
		// The defaults (20, 30) alone would make the start take seconds: each controller creates and uses an account.
		"--kube-api-qps=500", "--kube-api-burst=1000",
		"--root-ca-file=" + c.pki("ca.crt"),
		"--service-account-private-key-file=" + c.pki("tokens.key"),
		"--cluster-signing-cert-file=" + c.pki("ca.crt"),
		"--cluster-signing-key-file=" + c.pki("ca.key"),
	}
	if period := c.options.NodeMonitorPeriod; period != 0 {
		args = append(args, "--node-monitor-period="+period.String())
	}
	if grace := c.options.NodeMonitorGracePeriod; grace != 0 {
		args = append(args, "--node-monitor-grace-period="+grace.String())
	}
	return append(args, c.options.ControllerManagerArgs...)
}

func (c *Cluster) startControllerManager(ctx context.Context) (err error) {
	if c.controllerManager, err = c.launch("kube-controller-manager", c.controllerManagerArgs()); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return err
	}
	processes := []*program.Program{c.controllerManager, c.apiServer, c.etcd}
	return program.Await(ctx, "the default service account exists", processes, func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}
