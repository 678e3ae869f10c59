package localcluster

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Options say what control plane to start. Only Binaries is required.
type Options struct {
	// Binaries are what Build returned, with the part ControlPlane.
	Binaries Binaries
	// Dir is where data, logs and kubeconfigs go. It is created when absent, may not hold another control plane, and is
	// kept. Empty means a new directory under os.TempDir, which Stop removes; when Start fails it is kept, because the
	// error names the logs.
	Dir string
	// BindAddress is the address that kube-apiserver listens on. The zero value means 127.0.0.1.
	BindAddress netip.Addr
	// CertificateNames and CertificateAddrs are further names and addresses by which clients reach kube-apiserver.
	CertificateNames []string
	CertificateAddrs []netip.Addr

	// ControllerManager says whether kube-controller-manager runs too, without --cloud-provider. Without it nothing
	// removes the taints of new nodes, collects garbage or creates the namespaces' default service accounts.
	ControllerManager bool
	// NodeMonitorPeriod is how often kube-controller-manager looks at the nodes' health. Zero means its default of 5 s.
	NodeMonitorPeriod time.Duration
	// NodeMonitorGracePeriod is how long a node may be silent until it counts as unhealthy. Zero means the default of
	// kube-controller-manager, 50 s.
	NodeMonitorGracePeriod time.Duration

	// Audit is how much of each request goes to the audit log, which AuditEvents reads. Empty means no audit log.
	Audit auditv1.Level
	// APIServerArgs and ControllerManagerArgs are further arguments of the programs, which win over those of this package.
	APIServerArgs         []string
	ControllerManagerArgs []string
}

// auditLevels are what Options.Audit may be.
var auditLevels = []auditv1.Level{
	"", auditv1.LevelNone, auditv1.LevelMetadata, auditv1.LevelRequest, auditv1.LevelRequestResponse,
}

// complete fills in defaults and reports everything that is wrong at once.
func (o Options) complete() (Options, error) {
	var wrong field.ErrorList
	if o.Binaries == (Binaries{}) {
		wrong = append(wrong, field.Required(field.NewPath("Binaries"), "take what Build returns"))
	}
	if !o.BindAddress.IsValid() {
		o.BindAddress = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if o.BindAddress = o.BindAddress.Unmap(); o.BindAddress.IsUnspecified() {
		wrong = append(wrong, field.Invalid(field.NewPath("BindAddress"), o.BindAddress, "not one address of this machine"))
	}
	if !slices.Contains(auditLevels, o.Audit) {
		wrong = append(wrong, field.NotSupported(field.NewPath("Audit"), o.Audit, auditLevels))
	}
	if !o.ControllerManager {
		for name, set := range map[string]bool{
			"NodeMonitorPeriod":      o.NodeMonitorPeriod != 0,
			"NodeMonitorGracePeriod": o.NodeMonitorGracePeriod != 0,
			"ControllerManagerArgs":  len(o.ControllerManagerArgs) > 0,
		} {
			if set {
				wrong = append(wrong, field.Forbidden(field.NewPath(name), "needs ControllerManager"))
			}
		}
	}
	return o, wrong.ToAggregate()
}

// makeDir returns the directory of the control plane and whether Stop removes it.
func (o Options) makeDir() (dir string, temporary bool, err error) {
	if o.Dir == "" {
		dir, err = os.MkdirTemp("", "mooring-localcluster-")
		return dir, true, err
	}
	if dir, err = filepath.Abs(o.Dir); err != nil {
		return "", false, err
	}
	if _, err := os.Stat(filepath.Join(dir, "etcd")); err == nil {
		return "", false, fmt.Errorf("the directory %s holds a control plane already", dir)
	}
	return dir, false, os.MkdirAll(dir, 0o700)
}
