package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/mooring-ccm/mooring/internal/election"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
	"github.com/mooring-ccm/mooring/internal/version"
)

const (
	// defaultServer is where the secure port of a manager is, seen from its machine or through kubectl port-forward.
	defaultServer = "https://127.0.0.1:10258"
	// requestTimeout is how long an answer may take.
	requestTimeout = 30 * time.Second
	// maxAnswer is how many bytes an answer may have.
	maxAnswer = 256 << 20
	// maxRefusal is how much of an answer that is none is shown.
	maxRefusal = 500
)

// access is how to reach an API server and a manager.
type access struct {
	cli.Kubeconfig
	server, authority string
	insecure          bool
	// forwarding reaches the manager through the API server, and tokens are what it is then asked with, if it has the key. Any key will do
	// where none is known.
	forwarding bool
	tokens     *podTokens
	key        string
}

// addFlags adds the flags that say so. Server is the default of --server.
func (a *access) addFlags(cmd *cobra.Command, server string) {
	a.AddFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&a.server, "server", server, "`URL` of the manager's secure port")
	flags.BoolVar(&a.forwarding, "port-forward", false,
		"reach the manager's pod through the API server, in place of --server, with a token of the pod's account and none of yours; takes "+
			"\"create\" on pods/portforward and serviceaccounts/token")
	flags.StringVar(&a.authority, "certificate-authority", "", "PEM `file` of the authority that the manager's certificate is of")
	flags.BoolVar(&a.insecure, "insecure-skip-tls-verify", false,
		"believe any certificate of the manager; any server that answers sees the credentials of the kubeconfig")
}

// validate returns everything that is wrong with the flags.
func (a *access) validate() error {
	var wrong []error
	if a.server != "" {
		location, err := url.Parse(a.server)
		if err != nil || location.Scheme != "https" || location.Host == "" || location.User != nil ||
			strings.Trim(location.Path, "/") != "" || location.RawQuery != "" {
			wrong = append(wrong, errors.New("--server: must be https://HOST:PORT"))
		}
	}
	if a.forwarding && (a.server != "" || a.authority != "" || a.insecure) {
		wrong = append(wrong, errors.New("--port-forward: not with --server, --certificate-authority or --insecure-skip-tls-verify"))
	}
	if a.authority != "" && a.insecure {
		wrong = append(wrong, errors.New("--certificate-authority, --insecure-skip-tls-verify: only one of them"))
	}
	for flag, path := range map[string]string{"--kubeconfig": a.File, "--certificate-authority": a.authority} {
		if path == "" {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", flag, err))
		}
	}
	return errors.Join(wrong...)
}

// cluster returns how to reach the API server.
func (a *access) cluster() (*rest.Config, error) {
	config, err := a.Config()
	if err != nil {
		return nil, err
	}
	config.UserAgent, config.Timeout, config.QPS = version.UserAgent(), requestTimeout, -1 // few requests, which wait for each other anyway
	return config, nil
}

// manager returns a client of the manager's secure port, who is whom the kubeconfig says: that port asks the API server who it is.
// Of the kubeconfig it takes the credentials only: authority and proxy are the API server's. Through a port-forward it takes nothing of it.
func (a *access) manager(cluster *rest.Config) (*http.Client, error) {
	if a.tokens != nil {
		config := &rest.Config{Host: a.server, UserAgent: cluster.UserAgent, Timeout: requestTimeout, Transport: &http.Transport{TLSClientConfig: a.pinned()}}
		config.Wrap(a.tokens.wrap)
		return a.clientOf(config)
	}
	config := &rest.Config{
		Host: a.server, BearerToken: cluster.BearerToken, BearerTokenFile: cluster.BearerTokenFile,
		ExecProvider: cluster.ExecProvider, AuthProvider: cluster.AuthProvider, UserAgent: cluster.UserAgent, Timeout: requestTimeout,
		TLSClientConfig: rest.TLSClientConfig{
			Insecure: a.insecure, CAFile: a.authority,
			CertFile: cluster.CertFile, CertData: cluster.CertData, KeyFile: cluster.KeyFile, KeyData: cluster.KeyData,
		},
	}
	return a.clientOf(config)
}

// errOtherKey says that what answers through a port-forward is not the leader.
var errOtherKey = errors.New("what answers does not have the key that the leader has written into its lease")

// pinned takes the certificate with the key alone, whatever its names and its authority. The connection ends before anything is sent
// where it is another.
func (a *access) pinned() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, VerifyConnection: func(state tls.ConnectionState) error {
			if a.key != "" && election.ServingKey(state.PeerCertificates[0]) != a.key {
				return errOtherKey
			}
			return nil
		},
	}
}

func (a *access) clientOf(config *rest.Config) (*http.Client, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client of the manager: %w", err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // credentials go nowhere else
	return client, nil
}

// errNoSuchPath says that the manager does not serve a path.
var errNoSuchPath = errors.New("the manager does not serve it")

// ask gets a path of the manager.
func (a *access) ask(ctx context.Context, client *http.Client, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(a.server, "/")+path, nil)
	if err != nil {
		return nil, fmt.Errorf("--server: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, a.explain(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("reading %s of the manager: %w", path, err)
	}
	switch response.StatusCode {
	case http.StatusOK:
		return body, nil
	case http.StatusUnauthorized:
		if a.tokens != nil {
			return nil, fmt.Errorf("the manager does not know %s (401): is what answers a manager of this cluster?", a.tokens.account())
		}
		return nil, fmt.Errorf("the manager at %s does not know who asks (401): the kubeconfig has neither a token nor a client "+
			"certificate that the manager's API server accepts", a.server)
	case http.StatusForbidden:
		if bytes.Contains(body, []byte(user.Anonymous)) {
			return nil, fmt.Errorf("the manager at %s does not know who asks, and anonymous access to %s is denied (403): the kubeconfig has "+
				"neither a token nor a client certificate that the manager takes; outside of a pod it needs "+
				"--authentication-kubeconfig and --authorization-kubeconfig to take any", a.server, path)
		}
		who := "you"
		if a.tokens != nil {
			who = a.tokens.account()
		}
		return nil, fmt.Errorf("the manager at %s does not let %s read %s (403): bind a ClusterRole to %[2]s that has\n%[4]s",
			a.server, who, path, ruleFor(path))
	case http.StatusNotFound:
		return nil, fmt.Errorf("GET %s%s: %w", a.server, path, errNoSuchPath)
	default:
		return nil, fmt.Errorf("GET %s%s: %s: %.*q", a.server, path, response.Status, maxRefusal, strings.TrimSpace(string(body)))
	}
}

// ruleFor is what RBAC has to allow.
func ruleFor(path string) string {
	return fmt.Sprintf("  rules:\n  - nonResourceURLs: [%q]\n    verbs: [\"get\"]", path)
}

// explain says what to do about a manager that was not reached.
func (a *access) explain(err error) error {
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.Is(err, errOtherKey):
		return fmt.Errorf("--port-forward: no credential was sent: %w; if that certificate has just been replaced, repeat the command, otherwise name the "+
			"secure port by --server", errOtherKey)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens at %s: is a manager running there, or reachable by "+
			"kubectl --namespace kube-system port-forward pod/NAME 10258? (%w)", a.server, err)
	case errors.As(err, &untrusted):
		return fmt.Errorf("the manager's certificate is not trusted: say by --certificate-authority whose it is (one that the manager "+
			"made for itself is in its --cert-dir), or use --insecure-skip-tls-verify on a connection that you trust (%w)", err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("what listens at %s does not speak TLS (%w)", a.server, err)
	default:
		return fmt.Errorf("asking the manager: %w", err)
	}
}
