package adversary

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/utils/ptr"
)

// thief is a stolen credential of a kubelet.
type thief struct {
	client kubernetes.Interface
	draw   *mathrand.Rand
	// self is the name of its own node, and victims are the others, as the administrator sees them.
	self    string
	victims []victim
	// vip is the address of a Service, and lease the Lease of the manager's leader.
	vip, lease string
}

// victim is a node of which nothing may change.
type victim struct {
	name, providerID, podCIDR, address, systemUUID string
}

// moves are all that a kubelet's credential is good for, and some that it is not.
func (a *thief) moves() []move {
	return []move{
		{"annotate the own node", a.annotate},
		{"label the own node", a.label},
		{"report addresses of others", a.reportAddresses},
		{"report another machine", a.reportMachine},
		{"report readiness from the future", a.reportReadiness},
		{"register anew", a.register},
		{"make a mirror pod like the manager's", a.mirrorPod},
		{"ask for a certificate", a.requestCertificate},
		{"write the node of another", a.writeVictim},
		{"delete the node of another", a.deleteVictim},
		{"write the manager's lease", a.writeLease},
	}
}

func (a *thief) victim() victim { return a.victims[a.draw.IntN(len(a.victims))] }

func one[T any](draw *mathrand.Rand, values ...T) T { return values[draw.IntN(len(values))] }

// hostile is a value that names something of another node, is too large, or is no value at all.
func (a *thief) hostile() string {
	v := a.victim()
	return one(a.draw, v.name, v.providerID, v.systemUUID, v.address, v.podCIDR, a.vip, "true", "false", "", "*", "0.0.0.0/0", "10.96.0.0/12",
		"2999-01-01T00:00:00Z", `{"count":-1}`, `[{"count":-1000000000}]`, "\x1b[2J", strings.Repeat("x", 60_000), "kubernetes.default.svc")
}

func (a *thief) patchNode(ctx context.Context, patch map[string]any, subresources ...string) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = a.client.CoreV1().Nodes().Patch(ctx, a.self, types.StrategicMergePatchType, data, metav1.PatchOptions{}, subresources...)
	return err
}

func (a *thief) annotate(ctx context.Context) error {
	key := one(a.draw, "mooring.dev/proven", "mooring.dev/ignore", "mooring.dev/confirm-deletion", "mooring.dev/node-deletions",
		"metal.mooring.dev/fencing-attempt", "metal.mooring.dev/fencing-attempts", "metal.mooring.dev/node-groups", "metal.mooring.dev/drain",
		"metal.mooring.dev/exclude-from-fencing", cloudproviderapi.AnnotationAlphaProvidedIPAddr, "node.kubernetes.io/exclude-from-external-load-balancers")
	return a.patchNode(ctx, map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: a.hostile()}}})
}

func (a *thief) label(ctx context.Context) error {
	key := one(a.draw, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelInstanceTypeStable, corev1.LabelFailureDomainBetaZone,
		corev1.LabelNodeExcludeBalancers, corev1.LabelHostname, "node-restriction.kubernetes.io/pool", "node-role.kubernetes.io/control-plane", "pool")
	return a.patchNode(ctx, map[string]any{"metadata": map[string]any{"labels": map[string]any{key: one(a.draw, a.victim().name, "true", "", "z")}}})
}

func (a *thief) reportAddresses(ctx context.Context) error {
	addresses := []corev1.NodeAddress{}
	for range one(a.draw, 1, 3, 2000) {
		kind := one(a.draw, corev1.NodeInternalIP, corev1.NodeExternalIP, corev1.NodeHostName)
		addresses = append(addresses, corev1.NodeAddress{Type: kind, Address: one(a.draw, a.victim().address, a.vip, a.victim().name, fmt.Sprintf("10.9.%d.%d", a.draw.IntN(256), a.draw.IntN(256)))})
	}
	node, err := a.client.CoreV1().Nodes().Get(ctx, a.self, metav1.GetOptions{})
	if err != nil {
		return err
	}
	node.Status.Addresses = addresses
	_, err = a.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}

func (a *thief) reportMachine(ctx context.Context) error {
	v := a.victim()
	return a.patchNode(ctx, map[string]any{"status": map[string]any{"nodeInfo": map[string]any{
		"systemUUID": v.systemUUID, "machineID": v.systemUUID, "bootID": a.hostile(), "osImage": a.hostile(),
	}}}, "status")
}

func (a *thief) reportReadiness(ctx context.Context) error {
	at := metav1.NewTime(time.Now().Add(one(a.draw, -1000*time.Hour, 0, 1000*time.Hour)))
	condition := one(a.draw, corev1.NodeReady, corev1.NodeNetworkUnavailable, corev1.NodeConditionType("mooring.dev/DeletionHeld"))
	return a.patchNode(ctx, map[string]any{"status": map[string]any{"conditions": []map[string]any{{
		"type": condition, "status": one(a.draw, "True", "False", "Unknown"), "reason": one(a.draw, "NoRouteCreated", "RouteCreated", "X"), "message": "",
		"lastHeartbeatTime": at, "lastTransitionTime": at,
	}}}}, "status")
}

// register registers the own node afresh, with claims of others. An operator has deleted it before, which a kubelet may not do.
func (a *thief) register(ctx context.Context) error {
	if err := admin.CoreV1().Nodes().Delete(ctx, a.self, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	v := a.victim()
	cidr := one(a.draw, v.podCIDR, strings.Replace(v.podCIDR, ".0/24", ".0/25", 1), strings.Replace(v.podCIDR, ".0/24", ".7/32", 1), "10.244.0.0/16", "8.8.8.8/32", "10.96.0.0/12", "")
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: a.self, Annotations: map[string]string{"mooring.dev/proven": v.providerID}},
		Spec:       corev1.NodeSpec{ProviderID: one(a.draw, v.providerID, "", "other://1", a.hostile()), PodCIDR: cidr},
	}
	if cidr != "" {
		node.Spec.PodCIDRs = []string{cidr}
	}
	if a.draw.IntN(2) == 0 {
		node.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	}
	_, err := a.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	return err
}

func (a *thief) mirrorPod(ctx context.Context) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("cloud-controller-manager-%d-%s", a.draw.IntN(1000), a.self), Namespace: metav1.NamespaceSystem,
			Labels:      map[string]string{"app.kubernetes.io/name": "cloud-controller-manager", "component": "cloud-controller-manager"},
			Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"},
		},
		Spec: corev1.PodSpec{NodeName: a.self, Containers: []corev1.Container{{Name: "cloud-controller-manager", Image: "x", Args: []string{"--dry-run"}}}},
	}
	if node, err := a.client.CoreV1().Nodes().Get(ctx, a.self, metav1.GetOptions{}); err == nil {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: a.self, UID: node.UID, Controller: ptr.To(true)}}
	}
	_, err := a.client.CoreV1().Pods(metav1.NamespaceSystem).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// requestCertificate asks for a serving certificate with names and addresses of others.
func (a *thief) requestCertificate(ctx context.Context) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	v := a.victim()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:" + one(a.draw, a.self, v.name)},
		DNSNames: []string{one(a.draw, v.name, "kubernetes.default.svc", "kubernetes", "*")},
	}, key)
	if err != nil {
		return err
	}
	_, err = a.client.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "thief-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeletServingSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}, metav1.CreateOptions{})
	return err
}

func (a *thief) writeVictim(ctx context.Context) error {
	_, err := a.client.CoreV1().Nodes().Patch(ctx, a.victim().name, types.MergePatchType, []byte(`{"metadata":{"labels":{"stolen":"true"}}}`), metav1.PatchOptions{})
	return err
}

func (a *thief) deleteVictim(ctx context.Context) error {
	return a.client.CoreV1().Nodes().Delete(ctx, a.victim().name, metav1.DeleteOptions{})
}

func (a *thief) writeLease(ctx context.Context) error {
	_, err := a.client.CoordinationV1().Leases(metav1.NamespaceSystem).Update(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: a.lease, Namespace: metav1.NamespaceSystem},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(a.self)},
	}, metav1.UpdateOptions{})
	return err
}
