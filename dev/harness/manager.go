package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/mooring-ccm/mooring/dev/program"
)

// StopGrace is how long a manager may take to end after SIGTERM.
const StopGrace = 10 * time.Second

// Manager says how to run a manager. Name, Dir and Path are required, and one of Identity and Kubeconfig.
type Manager struct {
	// Name is what errors and its log are called. The log, and its serving certificate, go to Dir.
	Name, Dir string
	// Path is the program. Inside are words before its command line that put it into namespaces, for example.
	Path   string
	Inside []string
	// Identity is whom it runs as. Kubeconfig is a file to use instead of one with the rights of that.
	Identity   Identity
	Kubeconfig string
	// Server is the address, "host:port", of a relay by which Identity reaches the API server. Empty: it does so directly.
	Server string
	// Certs is where it keeps the certificate that it makes for itself. Empty: a folder in Dir.
	Certs string
	// CloudConfig is the file that --cloud-config names. Empty: none.
	CloudConfig string
	// Port is where it serves on 127.0.0.1. With zero it picks a free port, which it does not report.
	Port int
	// Flags are the other ones. They come last, and win. Env are environment variables as "NAME=value".
	Flags, Env []string
	// Append adds to the log, which else begins anew.
	Append bool
}

// Args are its command line without Inside and Path. It needs Kubeconfig, and no Path.
func (m Manager) Args() []string {
	args := []string{
		"--kubeconfig=" + m.Kubeconfig, "--authentication-kubeconfig=" + m.Kubeconfig, "--authorization-kubeconfig=" + m.Kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(m.Port), "--cert-dir=" + filepath.Dir(m.Certificate()),
	}
	if m.CloudConfig != "" {
		args = append(args, "--cloud-config="+m.CloudConfig)
	}
	return append(args, m.Flags...)
}

// Certificate is the file of the certificate that the manager makes for itself.
func (m Manager) Certificate() string {
	return filepath.Join(cmp.Or(m.Certs, filepath.Join(m.Dir, m.Name+"-serving")), "cloud-controller-manager.crt")
}

// Endpoint is where it serves at Port, with the certificate that it makes for itself.
func (m Manager) Endpoint() Endpoint {
	return Endpoint{Address: "127.0.0.1:" + strconv.Itoa(m.Port), Certificate: m.Certificate()}
}

// Command is what Start starts. The cluster may be nil if there is a Kubeconfig.
func (m Manager) Command(ctx context.Context, cluster *Cluster) (program.Options, error) {
	var keyless, portless error
	if m.Kubeconfig == "" {
		m.Kubeconfig, keyless = m.kubeconfig(ctx, cluster)
	}
	if m.Port == 0 {
		m.Port, portless = program.FreePort()
	}
	if err := errors.Join(keyless, portless); err != nil {
		return program.Options{}, fmt.Errorf("start %s: %w", m.Name, err)
	}
	words := slices.Concat(m.Inside, []string{m.Path}, m.Args())
	return program.Options{Name: m.Name, Path: words[0], Args: words[1:], Dir: m.Dir, Env: m.Env, Append: m.Append}, nil
}

// Start starts it.
func (m Manager) Start(ctx context.Context, cluster *Cluster) (*program.Program, error) {
	options, err := m.Command(ctx, cluster)
	if err != nil {
		return nil, err
	}
	return program.Start(options)
}

// kubeconfig returns the path of one with the rights of Identity, by which the API server is reached at Server.
func (m Manager) kubeconfig(ctx context.Context, cluster *Cluster) (string, error) {
	path, err := cluster.Kubeconfig(ctx, m.Identity)
	if err != nil || m.Server == "" {
		return path, err
	}
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return "", fmt.Errorf("read its kubeconfig: %w", err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = "https://" + m.Server
	}
	path = filepath.Join(m.Dir, m.Name+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("write its kubeconfig: %w", err)
	}
	return path, nil
}
