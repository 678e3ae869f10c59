package cloudconfig_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/names"
)

// configOf is a cloud config with load balancers only, with pools and a router.
func configOf(r *router, proxyPort int, pools ...string) string {
	var text strings.Builder
	text.WriteString("apiVersion: metal.mooring.dev/v1alpha1\nkind: MetalCloudConfig\npools:\n")
	for _, pool := range pools {
		name, prefix, _ := strings.Cut(pool, " ")
		fmt.Fprintf(&text, "- {name: %s, addresses: [%s]}\n", name, prefix)
	}
	fmt.Fprintf(&text, "announcement: {podRoutes: false, health: {interval: 100ms, kubeProxyPort: %d}}\n", proxyPort)
	fmt.Fprintf(&text, "bgp:\n  asn: 64512\n  peers: [{address: 127.0.0.1, port: %s, asn: 64512, connectRetry: 2s}]\n", r.port)
	return text.String()
}

const (
	objectNamespace = "kube-system"
	objectName      = "mooring-cloud-config"
	// quickly is far above what a change takes, on a busy machine too. A mounted file takes about a minute.
	quickly = 30 * time.Second
)

// objectRights let the manager read its cloud config, and nothing else of the kind.
const objectRights = `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: cloud-config, namespace: kube-system}
rules:
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [mooring-cloud-config]
  verbs: [get, list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: cloud-config, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: cloud-config}
subjects:
- {kind: ServiceAccount, name: cloud-controller-manager, namespace: kube-system}
`

// put creates the ConfigMap, or changes it.
func put(t *testing.T, content string) {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: objectName}, Data: map[string]string{"cloud.yaml": content}}
	if _, err := admin.CoreV1().ConfigMaps(objectNamespace).Update(t.Context(), object, metav1.UpdateOptions{}); err == nil {
		return
	}
	_, err := admin.CoreV1().ConfigMaps(objectNamespace).Create(t.Context(), object, metav1.CreateOptions{})
	must.NoError(t, err)
}

// said waits for an event on the ConfigMap whose message holds a text, counted from the last call on.
func said(t *testing.T, reason, text string) {
	t.Helper()
	poll.Until(t, "the ConfigMap has an event "+reason+" with "+text, func(ctx context.Context) error {
		events, err := admin.CoreV1().Events(objectNamespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=ConfigMap,involvedObject.name=" + objectName + ",reason=" + reason,
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

// A cloud config that is a ConfigMap is in force within seconds of kubectl apply. One that is wrong, or gone, is refused by an event, and
// what was announced before stays announced, all the time.
func TestConfigObject(t *testing.T) {
	must.NoError(t, cluster.Apply(t.Context(), []byte(objectRights)))
	t.Cleanup(func() {
		_ = admin.CoreV1().ConfigMaps(objectNamespace).Delete(context.WithoutCancel(t.Context()), objectName, metav1.DeleteOptions{})
	})
	r, port := newRouter(t), joinPlain(t, "object-1")
	unchanged := untouched(t)

	// The manager waits for an object that is applied after it.
	daemon(t, "--cloud-config-object=configmap/"+objectNamespace+"/"+objectName)
	put(t, configOf(r, port, "first 198.18.0.0/28"))
	serve(t, "web", "first", "object-1")
	serve(t, "api", "second", "object-1")
	web := address(t, "web", "198.18.0.")
	kept := r.keeps(web)

	changed := time.Now()
	put(t, configOf(r, port, "first 198.18.0.0/28", "second 198.18.1.0/28"))
	address(t, "api", "198.18.1.")
	took := time.Since(changed)
	t.Logf("a Service had an address of a new pool after %s", took.Round(time.Millisecond))
	if took > quickly {
		t.Errorf("a change took %s, want at most %s", took, quickly)
	}
	said(t, names.ReasonCloudConfigTaken, "uses the cloud config")

	put(t, configOf(r, port, "first 198.18.0.0/28", "second 198.18.0.8/29")+"color: red\n")
	said(t, names.ReasonCloudConfigRefused, "color: Invalid value: unknown field")
	said(t, names.ReasonCloudConfigRefused, `pool "second" overlaps 198.18.0.0/28 of pool "first"`)
	serve(t, "late", "second", "object-1")
	address(t, "late", "198.18.1.") // the config before is still in force

	must.NoError(t, admin.CoreV1().ConfigMaps(objectNamespace).Delete(t.Context(), objectName, metav1.DeleteOptions{}))
	poll.Until(t, "an event that the ConfigMap is gone", func(ctx context.Context) error {
		events, err := admin.CoreV1().Events(objectNamespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + names.ReasonCloudConfigRefused})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if strings.Contains(event.Message, "is deleted") {
				return nil
			}
		}
		return fmt.Errorf("its events are %+v", events.Items)
	})
	put(t, configOf(r, port, "first 198.18.0.0/28", "second 198.18.1.0/28", "third 198.18.2.0/28"))
	serve(t, "last", "third", "object-1")
	address(t, "last", "198.18.2.")
	kept()
	unchanged()
}

// A manager that does not start because of its cloud config says so on the object, and what rights it lacks.
func TestConfigObjectThatIsWrongAtTheStart(t *testing.T) {
	must.NoError(t, cluster.Apply(t.Context(), []byte(objectRights)))
	put(t, "kind: Something\n")
	t.Cleanup(func() {
		_ = admin.CoreV1().ConfigMaps(objectNamespace).Delete(context.WithoutCancel(t.Context()), objectName, metav1.DeleteOptions{})
	})
	refused := daemon(t, "--cloud-config-object=configmap/"+objectNamespace+"/"+objectName)
	ends(t, refused, `ConfigMap kube-system/mooring-cloud-config, key cloud.yaml`)
	said(t, names.ReasonCloudConfigRefused, `does not start with the cloud config`)

	ends(t, daemon(t, "--cloud-config-object=secret/"+objectNamespace+"/"+objectName), "for which the verbs get, list and watch on this object are needed")
}
