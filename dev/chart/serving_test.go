package chart_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/mooring-ccm/mooring/dev/chart/render"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// scrapeTLS is the tlsConfig of an endpoint of the Prometheus operator.
type scrapeTLS struct {
	InsecureSkipVerify bool
	ServerName         string
	CA                 struct {
		Secret *corev1.SecretKeySelector
	}
}

// scrapesOf returns how each endpoint of the ServiceMonitor is verified.
func scrapesOf(t *testing.T, values string) []scrapeTLS {
	t.Helper()
	objects, err := render.Objects(load(t), parse(t, values+"\nprovider: {name: sim}\n"))
	must.NoError(t, err)
	_, text, found := strings.Cut(objects["monitoring.yaml"], "kind: ServiceMonitor\n")
	if !found {
		t.Fatal("there is no ServiceMonitor")
	}
	var monitor struct {
		Spec struct {
			Endpoints []struct{ TLSConfig scrapeTLS }
		}
	}
	must.NoError(t, yaml.Unmarshal([]byte(text), &monitor))
	var all []scrapeTLS
	for _, endpoint := range monitor.Spec.Endpoints {
		all = append(all, endpoint.TLSConfig)
	}
	return all
}

// TestServiceMonitorVerifies reads what Prometheus verifies: everything, unless the operator disables that.
func TestServiceMonitorVerifies(t *testing.T) {
	const monitor = "serviceMonitor: {enabled: true}\n"
	for values, want := range map[string]scrapeTLS{
		monitor + "servingCertificate: {existingSecret: own}":                                      verifies("own"),
		monitor + "servingCertificate: {certManager: {enabled: true, issuerRef: {name: cluster}}}": verifies("mooring-serving"),
		"serviceMonitor: {enabled: true, insecureSkipVerify: true}":                                {InsecureSkipVerify: true},
		"serviceMonitor: {enabled: true, tlsConfig: {serverName: x}}":                              {ServerName: "x"},
	} {
		for _, got := range scrapesOf(t, values) {
			if fmt.Sprint(got.CA.Secret) != fmt.Sprint(want.CA.Secret) || got.ServerName != want.ServerName || got.InsecureSkipVerify != want.InsecureSkipVerify {
				t.Errorf("%s: %+v, want %+v", values, got, want)
			}
		}
	}
}

func verifies(secret string) scrapeTLS {
	want := scrapeTLS{ServerName: "mooring-metrics.kube-system.svc"}
	want.CA.Secret = &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: "ca.crt"}
	return want
}

// certificate makes a self-signed certificate for a name, with its key, as PEM.
func certificate(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	must.NoError(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	must.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

// TestPrometheusVerifiesTheDaemon runs the daemon with the certificate of a Secret, and scrapes it with what the ServiceMonitor says, as
// Prometheus does. Another certificate in the Secret counts without a restart, and the one before is then refused.
func TestPrometheusVerifiesTheDaemon(t *testing.T) {
	cluster := localclustertest.Start(t)
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	must.NoError(t, err)
	cloud := simtest.Start(t, cloudsim.Options{})
	config, err := os.ReadFile(cloud.ConfigFile)
	must.NoError(t, err)
	const values = "serviceMonitor: {enabled: true}\nservingCertificate: {existingSecret: serving}"
	scrape := scrapesOf(t, values)[0]
	first, key := certificate(t, scrape.ServerName)
	_, err = client.CoreV1().Secrets(render.Namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "serving"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{"tls.crt": first, "tls.key": key, "ca.crt": first},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
	set := parse(t, values)
	set["provider"] = map[string]any{"name": "sim", "config": map[string]any{"inline": string(config)}}
	objects, err := render.Objects(load(t), set)
	must.NoError(t, err)
	must.NoError(t, cluster.Apply(t.Context(), withoutOperator(objects)))
	must.NoError(t, cluster.Apply(t.Context(), []byte(scraperRights)))
	issued, err := client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "prometheus", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must.NoError(t, err)
	port := localclustertest.FreePort(t)
	mounts := runAt(t, cluster, client, port)

	scrapeWith := func(ctx context.Context, ca []byte) error {
		return scrapeOnce(ctx, port, issued.Status.Token, scrape.ServerName, ca)
	}
	poll.Until(t, "Prometheus scrapes it", func(ctx context.Context) error { return scrapeWith(ctx, first) })
	second, key := certificate(t, scrape.ServerName)
	if err := scrapeWith(t.Context(), second); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("with another authority: %v, want an error about the certificate", err)
	}
	project(t, mounts["/etc/mooring/serving"], map[string][]byte{"tls.crt": second, "tls.key": key, "ca.crt": second})
	poll.Until(t, "the certificate is exchanged", func(ctx context.Context) error { return scrapeWith(ctx, second) })
	if err := scrapeWith(t.Context(), first); err == nil {
		t.Error("what is served is verified by an authority that has not signed it")
	}
}

// scraperRights let the ServiceAccount default/prometheus read metrics, and nothing else.
const scraperRights = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: prometheus, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: prometheus}
rules: [{nonResourceURLs: [/metrics, /metrics/slis], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: prometheus}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: prometheus}
subjects: [{kind: ServiceAccount, name: prometheus, namespace: default}]
`

// scrapeOnce gets the metrics as Prometheus does.
func scrapeOnce(ctx context.Context, port, token, serverName string, ca []byte) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: serverName, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1:"+port+"/metrics", nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || !bytes.Contains(body, []byte("mooring_build_info"))) {
		err = fmt.Errorf("it answers %s", response.Status)
	}
	return err
}

// TestNetworkPolicy reads who may connect, and puts the policies on a real API server.
func TestNetworkPolicy(t *testing.T) {
	cluster := localclustertest.Start(t)
	for values, want := range map[string]string{
		"networkPolicy: {enabled: true}": "https/TCP from 0 peers; egress false",
		"networkPolicy: {enabled: true, from: [{podSelector: {matchLabels: {app: prometheus}}}]}": "https/TCP from 1 peers; egress false",
		"networkPolicy: {enabled: true, routers: [{ipBlock: {cidr: 10.0.0.254/32}}]}":             "https/TCP from 0 peers, 179/TCP 3784/UDP from 1 peers; egress false",
		"networkPolicy: {enabled: true, egress: [{ports: [{port: 6443}]}]}":                       "https/TCP from 0 peers; egress true",
	} {
		objects, err := render.Objects(load(t), parse(t, values+"\nhostNetwork: false\nprovider: {name: metal}"))
		must.NoError(t, err)
		text := []byte(objects["networkpolicy.yaml"])
		var policy networkingv1.NetworkPolicy
		must.NoError(t, yaml.UnmarshalStrict(text, &policy))
		if err := cluster.Apply(t.Context(), text); err != nil {
			t.Errorf("%s: %v", values, err)
		}
		var rules []string
		for _, rule := range policy.Spec.Ingress {
			var ports []string
			for _, port := range rule.Ports {
				ports = append(ports, port.Port.String()+"/"+string(*port.Protocol))
			}
			rules = append(rules, fmt.Sprintf("%s from %d peers", strings.Join(ports, " "), len(rule.From)))
		}
		if got := fmt.Sprintf("%s; egress %t", strings.Join(rules, ", "), len(policy.Spec.PolicyTypes) == 2); got != want {
			t.Errorf("%s: %s, want %s", values, got, want)
		}
		pod := podOf(t, "hostNetwork: false\nprovider: {name: metal}")
		if name := policy.Spec.Ingress[0].Ports[0].Port.StrVal; name != pod.Containers[0].Ports[0].Name {
			t.Errorf("the port %q is none of the container", name)
		}
	}
}
