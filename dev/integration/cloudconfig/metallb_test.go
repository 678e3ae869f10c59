package cloudconfig_test

import (
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/api"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/providers/metal/lb/metallb"
)

// metallbDefinitions are MetalLB's own definitions of resources.
//
//go:embed testdata/metallb-crds.yaml
var metallbDefinitions []byte

// applied applies resources of MetalLB, whose definitions may be a moment old.
func applied(t *testing.T, manifest string) {
	t.Helper()
	poll.Until(t, "resources of MetalLB are applied", func(ctx context.Context) error { return cluster.Apply(ctx, []byte(manifest)) })
}

func poolOf(name, addresses string) string {
	return fmt.Sprintf("apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: %s, namespace: metallb-system}\nspec: {addresses: [%q]}\n---\n", name, addresses)
}

// peerOf is a router with further fields of its spec.
func peerOf(r *router, further string) string {
	return fmt.Sprintf("apiVersion: metallb.io/v1beta2\nkind: BGPPeer\nmetadata: {name: router, namespace: metallb-system}\n"+
		"spec: {myASN: 64512, peerASN: 64512, peerAddress: 127.0.0.1, peerPort: %s, connectTime: 2s%s}\n---\n", r.port, further)
}

const advertisement = "apiVersion: metallb.io/v1beta1\nkind: BGPAdvertisement\nmetadata: {name: all, namespace: metallb-system}\n---\n"

// tells waits for an event on a resource of MetalLB whose message holds a text.
func tells(t *testing.T, kind, name, reason, text string) {
	t.Helper()
	poll.Until(t, kind+" "+name+" has an event "+reason+" with "+text, func(ctx context.Context) error {
		events, err := admin.CoreV1().Events(metallb.DefaultNamespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=" + kind + ",involvedObject.name=" + name + ",reason=" + reason,
		})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if strings.Contains(event.Message, text) && event.InvolvedObject.UID != "" {
				return nil
			}
		}
		return fmt.Errorf("its events are %+v", events.Items)
	})
}

// counts waits until the status of a pool shows how many addresses are assigned and available.
func counts(t *testing.T, name string, assigned, available int64) {
	t.Helper()
	client, err := dynamic.NewForConfig(cluster.AdminConfig())
	must.NoError(t, err)
	pools := client.Resource(schema.GroupVersionResource{Group: "metallb.io", Version: "v1beta1", Resource: "ipaddresspools"})
	poll.Until(t, "the status of pool "+name, func(ctx context.Context) error {
		found, err := pools.Namespace(metallb.DefaultNamespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		given, _, _ := unstructured.NestedInt64(found.Object, "status", "assignedIPv4")
		free, _, _ := unstructured.NestedInt64(found.Object, "status", "availableIPv4")
		if given != assigned || free != available {
			return fmt.Errorf("%d are assigned and %d available, want %d and %d", given, free, assigned, available)
		}
		return nil
	})
}

// forMetalLB makes what managers need whose cloud config is made of MetalLB's resources: their rights, a router and a node. It returns the file that they
// take the rest from.
func forMetalLB(t *testing.T, node string) (r *router, file string) {
	t.Helper()
	must.NoError(t, cluster.Apply(t.Context(), []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: metallb-system}\n")))
	must.NoError(t, cluster.Apply(t.Context(), deploy.MetalLBRBAC))
	r, port := newRouter(t), joinPlain(t, node)
	file = filepath.Join(t.TempDir(), "cloud.yaml")
	must.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "apiVersion: metal.mooring.dev/v1alpha1\nkind: MetalCloudConfig\n"+
		"announcement: {health: {interval: 100ms, kubeProxyPort: %d}}\n", port), 0o600))
	return r, file
}

// The resources of MetalLB are a cloud config that is followed. One that is wrong costs nothing that works, before and after a restart, and
// each tells by events what has no equivalent and what is refused.
func TestMetalLBResources(t *testing.T) {
	r, file := forMetalLB(t, "metallb-1")
	unchanged := untouched(t)
	args := []string{"--metal-config-source=metallb", "--cloud-config=" + file}

	// The manager waits for definitions and resources that are applied after it.
	first := daemon(t, args...)
	must.NoError(t, cluster.Apply(t.Context(), metallbDefinitions))
	applied(t, poolOf("first", "198.18.20.0/28"))
	applied(t, peerOf(r, ", routerID: 192.0.2.1")+advertisement)
	serve(t, "metallb-web", "first", "metallb-1")
	serve(t, "metallb-api", "second", "metallb-1")
	web := address(t, "metallb-web", "198.18.20.")
	kept := r.keeps(web)
	tells(t, "BGPPeer", "router", metallb.EventNoEquivalent, "spec.routerID: ")
	counts(t, "first", 1, 15)

	applied(t, poolOf("second", "198.18.21.0/28"))
	kept2 := r.keeps(address(t, "metallb-api", "198.18.21."))

	// A pool that overlaps another one, one whose addresses are none, and a router in a VRF: the versions before stay in force.
	applied(t, poolOf("another", "198.18.20.8/29"))
	tells(t, "IPAddressPool", "another", metallb.EventRefused, `It is not in force: `)
	applied(t, poolOf("second", "nonsense"))
	tells(t, "IPAddressPool", "second", metallb.EventRefused, `The version before stays in force: `)
	applied(t, peerOf(r, ", vrf: red"))
	tells(t, "BGPPeer", "router", metallb.EventRefused, "spec.vrf: ")
	applied(t, poolOf("third", "198.18.22.0/28"))
	serve(t, "metallb-late", "third", "metallb-1")
	address(t, "metallb-late", "198.18.22.")
	kept2()
	kept()

	// Who starts beside resources that are wrong serves the others. The router is right again by then.
	applied(t, peerOf(r, ""))
	must.NoError(t, first.Kill())
	daemon(t, args...)
	serve(t, "metallb-last", "third", "metallb-1")
	last := address(t, "metallb-last", "198.18.22.")
	poll.Until(t, "routes after a restart", func(context.Context) error { return r.has(last) })
	if now := address(t, "metallb-web", "198.18.20."); now != web {
		t.Errorf("the address was %s and is %s", web, now)
	}
	unchanged()
}

// removed deletes a resource of MetalLB, or all of its kind if the name is empty.
func removed(t *testing.T, resource, version, name string) {
	t.Helper()
	client, err := dynamic.NewForConfig(cluster.AdminConfig())
	must.NoError(t, err)
	of := client.Resource(schema.GroupVersionResource{Group: "metallb.io", Version: version, Resource: resource}).Namespace(metallb.DefaultNamespace)
	if name == "" {
		must.NoError(t, of.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
		return
	}
	must.NoError(t, of.Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// cleared deletes the resources of MetalLB that other tests have left.
func cleared(t *testing.T) {
	t.Helper()
	removed(t, "ipaddresspools", "v1beta1", "")
	removed(t, "bgpadvertisements", "v1beta1", "")
	removed(t, "l2advertisements", "v1beta1", "")
	removed(t, "bgppeers", "v1beta2", "")
}

// announcedWithin is when a message that changes while status and reason stay is written again: a look a minute, and a write a minute.
const announcedWithin = 3 * time.Minute

// announced waits until the condition Announced of a Service has a status with a text in its message. The status is empty for no condition.
func announced(t *testing.T, service, status, text string) {
	t.Helper()
	poll.Within(t, announcedWithin, "Service "+service+" has the condition Announced "+status+": "+text, func(ctx context.Context) error {
		found, err := admin.CoreV1().Services(namespace).Get(ctx, service, metav1.GetOptions{})
		if err != nil {
			return err
		}
		condition := meta.FindStatusCondition(found.Status.Conditions, names.ConditionAnnounced)
		if condition == nil && status == "" || condition != nil && string(condition.Status) == status && strings.Contains(condition.Message, text) {
			return nil
		}
		return fmt.Errorf("it is %+v", condition)
	})
}

// What announces may come after the start and go again, in any order: no process is restarted, and what stays goes on.
func TestMetalLBAnnouncesLater(t *testing.T) {
	must.NoError(t, cluster.Apply(t.Context(), metallbDefinitions))
	r, file := forMetalLB(t, "metallb-2")
	applied(t, poolOf("later", "198.18.30.0/28"))
	cleared(t)
	applied(t, poolOf("later", "198.18.30.0/28"))
	daemon(t, "--metal-config-source=metallb", "--cloud-config="+file)
	serve(t, "metallb-later", "later", "metallb-2")
	addr := address(t, "metallb-later", "198.18.30.")
	announced(t, "metallb-later", "", "")

	applied(t, peerOf(r, "")+advertisement)
	kept := r.keeps(addr)
	announced(t, "metallb-later", "True", "to 1 of 1 router")
	const segment = "apiVersion: metallb.io/v1beta1\nkind: L2Advertisement\nmetadata: {name: segment, namespace: metallb-system}\n"
	applied(t, segment)
	announced(t, "metallb-later", "True", "no network of the replica that answers ARP and NDP")
	removed(t, "l2advertisements", "v1beta1", "segment")
	announced(t, "metallb-later", "True", "to 1 of 1 router")
	kept()

	applied(t, segment)
	removed(t, "bgppeers", "v1beta2", "router")
	announced(t, "metallb-later", "False", "no network of the replica that answers ARP and NDP")
	poll.Until(t, "the router has no route", func(context.Context) error { return poll.Holds(r.has(addr) != nil) })
	removed(t, "l2advertisements", "v1beta1", "segment")
	announced(t, "metallb-later", "", "")
	applied(t, peerOf(r, ""))
	kept = r.keeps(addr)
	announced(t, "metallb-later", "True", "to 1 of 1 router")
	kept()
	if now := address(t, "metallb-later", "198.18.30."); now != addr {
		t.Errorf("the address was %s and is %s", addr, now)
	}
}

// secured has the router ask for a password from now on. It ends the session.
func (r *router) secured(password string) {
	r.t.Helper()
	must.NoError(r.t, r.server.DeletePeer(r.t.Context(), &api.DeletePeerRequest{Address: "127.0.0.1"}))
	must.NoError(r.t, r.server.AddPeer(r.t.Context(), &api.AddPeerRequest{Peer: &api.Peer{
		Conf:      &api.PeerConf{NeighborAddress: "127.0.0.1", PeerAsn: 64512, AuthPassword: password},
		Transport: &api.Transport{PassiveMode: true},
	}}))
}

// password puts a value into a Secret bgp of a namespace, in the place of the Secret that was there. It is removed when the test ends.
func password(t *testing.T, in string, kind corev1.SecretType, key, value string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "bgp"}, Type: kind, Data: map[string][]byte{key: []byte(value)}}
	remove := func() {
		_ = admin.CoreV1().Secrets(in).Delete(context.WithoutCancel(t.Context()), "bgp", metav1.DeleteOptions{})
	}
	remove()
	_, err := admin.CoreV1().Secrets(in).Create(t.Context(), secret, metav1.CreateOptions{})
	must.NoError(t, err)
	t.Cleanup(remove)
}

// A BGPPeer has its password in a Secret of its own namespace. Another password counts without a restart, one that cannot be used ends no
// session, and none is shown.
func TestMetalLBPasswordSecret(t *testing.T) {
	const first, second, key = "swordfish-of-the-first-day", "swordfish-of-the-second-day", corev1.BasicAuthPasswordKey
	must.NoError(t, cluster.Apply(t.Context(), []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: elsewhere}\n")))
	must.NoError(t, cluster.Apply(t.Context(), metallbDefinitions))
	r, file := forMetalLB(t, "metallb-3")
	r.secured(first)
	applied(t, poolOf("secured", "198.18.40.0/28"))
	cleared(t)
	applied(t, poolOf("secured", "198.18.40.0/28"))

	// The Secret that the BGPPeer names by its namespace is not read, although it has the password.
	password(t, "elsewhere", corev1.SecretTypeBasicAuth, key, first)
	applied(t, peerOf(r, ", passwordSecret: {name: bgp, namespace: elsewhere}")+advertisement)
	manager := daemon(t, "--metal-config-source=metallb", "--cloud-config="+file, "--v=10", "--logging-format=text")
	serve(t, "metallb-secured", "secured", "metallb-3")
	addr := address(t, "metallb-secured", "198.18.40.")
	tells(t, "BGPPeer", "router", metallb.EventNoEquivalent, "spec.passwordSecret.namespace: ")
	tells(t, "BGPPeer", "router", metallb.EventSecretRefused, "there is no Secret metallb-system/bgp: create it")
	if r.has(addr) == nil {
		t.Error("there is a session without a password, or with the one of another namespace")
	}

	password(t, metallb.DefaultNamespace, corev1.SecretTypeBasicAuth, key, first)
	kept := r.keeps(addr)
	password(t, metallb.DefaultNamespace, corev1.SecretTypeBasicAuth, "username", second)
	tells(t, "BGPPeer", "router", metallb.EventSecretRefused, "has no key password: add it")
	password(t, metallb.DefaultNamespace, corev1.SecretTypeOpaque, key, second)
	tells(t, "BGPPeer", "router", metallb.EventSecretRefused, `its type is "Opaque": create it anew`)
	kept()

	r.secured(second)
	password(t, metallb.DefaultNamespace, corev1.SecretTypeBasicAuth, key, second)
	r.keeps(addr)()

	events, err := admin.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	must.NoError(t, err)
	log, err := os.ReadFile(manager.LogPath())
	must.NoError(t, err)
	if !strings.Contains(string(log), "/secrets/bgp") {
		t.Error("the log does not show that the Secret is read: this test looks in the wrong place")
	}
	for _, value := range []string{first, second} {
		for _, text := range []string{value, base64.StdEncoding.EncodeToString([]byte(value)), hex.EncodeToString([]byte(value))} {
			if strings.Contains(string(log)+fmt.Sprint(events.Items), text) {
				t.Errorf("the log or an event shows %q", text)
			}
		}
	}
}

// A manager whose source lacks rights says which.
func TestMetalLBResourcesWithoutRights(t *testing.T) {
	ends(t, daemon(t, "--metal-config-source=metallb/default"), "for which the verbs list and watch are needed")
}
