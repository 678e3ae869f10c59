package localcluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenValidity is how long a token of ServiceAccountKubeconfig is good: longer than a demo that was left running.
const tokenValidity = 7 * 24 * time.Hour

// AdminConfig returns a client configuration with all rights. The client does not throttle itself.
func (c *Cluster) AdminConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// AdminKubeconfig is the path of a kubeconfig file with all rights.
func (c *Cluster) AdminKubeconfig() string { return c.kubeconfigPath("admin") }

// UserConfig returns a client configuration for a user in groups, by a client certificate. What the user may do is up to
// RBAC. A kubelet is the user "system:node:NAME" in the group "system:nodes".
func (c *Cluster) UserConfig(user string, groups ...string) (*rest.Config, error) {
	issued, err := c.authority.client(user, groups...)
	if err != nil {
		return nil, err
	}
	return c.config(issued), nil
}

// UserKubeconfig is UserConfig as a kubeconfig file, and returns its path.
func (c *Cluster) UserKubeconfig(user string, groups ...string) (string, error) {
	config, err := c.UserConfig(user, groups...)
	if err != nil {
		return "", err
	}
	path := c.kubeconfigPath(strings.NewReplacer(":", "-", "/", "-").Replace(user))
	return path, writeKubeconfig(path, config)
}

// ServiceAccountKubeconfig returns the path of a kubeconfig file with a token of a service account, which is created, and
// its namespace with it, when it is not there. It has the rights that RBAC gives to the service account and no others.
func (c *Cluster) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	path := c.kubeconfigPath(namespace + "-" + name)
	client, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return "", fmt.Errorf("kubeconfig of service account %s/%s: %w", namespace, name, err)
	}
	if err := ensureServiceAccount(ctx, client, namespace, name); err != nil {
		return "", fmt.Errorf("kubeconfig of service account %s/%s: %w", namespace, name, err)
	}
	seconds := int64(tokenValidity.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	issued, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("request a token of service account %s/%s: %w", namespace, name, err)
	}
	config := c.config(identity{})
	config.BearerToken = issued.Status.Token
	return path, writeKubeconfig(path, config)
}

func ensureServiceAccount(ctx context.Context, client kubernetes.Interface, namespace, name string) error {
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	_, err := client.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err = client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// config is a client configuration for an identity.
func (c *Cluster) config(user identity) *rest.Config {
	return &rest.Config{
		Host: "https://" + c.endpoint,
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   c.authority.certPEM,
			CertData: user.certPEM,
			KeyData:  user.keyPEM,
		},
		// API Priority and Fairness of the server is what bounds a client.
		QPS: -1,
	}
}

func (c *Cluster) kubeconfigPath(name string) string {
	return filepath.Join(c.dir, "kubeconfigs", name+".kubeconfig")
}

// writeKubeconfig puts a whole file into place: a program that was started with an earlier one of the name may be reading it.
func writeKubeconfig(path string, config *rest.Config) error {
	const name = "localcluster"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData,
		ClientKeyData:         config.KeyData,
		Token:                 config.BearerToken,
	}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	unfinished, err := os.MkdirTemp(filepath.Dir(path), "unfinished-")
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	defer os.RemoveAll(unfinished)
	written := filepath.Join(unfinished, filepath.Base(path))
	if err := clientcmd.WriteToFile(*file, written); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	if err := os.Rename(written, path); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
