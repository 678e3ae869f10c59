package harness

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/mooring-ccm/mooring/localcluster"
	"github.com/mooring-ccm/mooring/localcluster/program"
)

// The ServiceAccounts of the managers, and their namespace.
const (
	AccountNamespace = "kube-system"
	MooringAccount   = "cloud-controller-manager"
	ReferenceAccount = "reference-ccm"
)

// StopGrace is how long a manager may take to end after SIGTERM.
const StopGrace = 10 * time.Second

// ReferenceRights are a manifest of what the reference may do: what Kubernetes documents, for ReferenceAccount.
//
//go:embed rbac-reference.yaml
var ReferenceRights []byte

// Manager says how to run a manager on a control plane. All but Port, Flags, Env and Through are required.
type Manager struct {
	// Name is what errors and its log are called. The log, and its serving certificate, go to Dir.
	Name, Dir string
	// Path is the program, and Account the name of the ServiceAccount that it runs as.
	Path, Account string
	// CloudConfig is the file that --cloud-config names.
	CloudConfig string
	// Port is where it serves on 127.0.0.1. Zero: on one that is free, and that nobody is told.
	Port int
	// Flags are for the manager, besides those that say where everything is. Env are environment variables as "NAME=value".
	Flags, Env []string
	// Through is the address, "host:port", of a relay by which it reaches the API server. Empty: it does so directly.
	Through string
}

// Start starts the manager with the rights of its ServiceAccount.
func (m Manager) Start(ctx context.Context, cluster *localcluster.Cluster) (*program.Program, error) {
	kubeconfig, err := cluster.ServiceAccountKubeconfig(ctx, AccountNamespace, m.Account)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", m.Name, err)
	}
	if m.Through != "" {
		if kubeconfig, err = m.through(kubeconfig); err != nil {
			return nil, fmt.Errorf("start %s: %w", m.Name, err)
		}
	}
	port := m.Port
	if port == 0 {
		if port, err = program.FreePort(); err != nil {
			return nil, err
		}
	}
	return program.Start(program.Options{
		Name: m.Name, Path: m.Path, Dir: m.Dir, Env: m.Env,
		Args: append([]string{
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--cloud-config=" + m.CloudConfig, "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
			"--cert-dir=" + filepath.Join(m.Dir, m.Name+"-serving"),
		}, m.Flags...),
	})
}

// through returns the path of a kubeconfig like another one, by which the API server is reached through the relay.
func (m Manager) through(kubeconfig string) (string, error) {
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return "", fmt.Errorf("read its kubeconfig: %w", err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = "https://" + m.Through
	}
	path := filepath.Join(m.Dir, m.Name+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("write its kubeconfig: %w", err)
	}
	return path, nil
}
