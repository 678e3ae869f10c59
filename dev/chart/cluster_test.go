package chart_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/chart/render"
	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/harness/harnesstest"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// build builds the shipped daemon.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "cloud-controller-manager")
	must.NoError(t, harness.BuildDaemon(t.Context(), program, os.Stderr))
	return program
}

// withoutOperator leaves out what needs the custom resources of the Prometheus operator.
func withoutOperator(objects map[string]string) []byte {
	var all []string
	for _, text := range objects {
		for document := range strings.SplitSeq(text, "\n---\n") {
			if !strings.Contains(document, "monitoring.coreos.com/") {
				all = append(all, document)
			}
		}
	}
	return []byte(strings.Join(all, "\n---\n"))
}

// TestRenderedObjectsRun applies what the chart renders to a real API server, and runs the daemon as a kubelet would: with the
// arguments, the files and the rights that the Deployment says, and nothing else.
func TestRenderedObjectsRun(t *testing.T) {
	cluster := localclustertest.Start(t)
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	must.NoError(t, err)
	cloud := simtest.Start(t, cloudsim.Options{})
	config, err := os.ReadFile(cloud.ConfigFile)
	must.NoError(t, err)
	_, err = cloud.Client.CreateInstance(t.Context(), api.InstanceSpec{
		Name: "rendered", Zone: cloudsim.DefaultZones()[0], MachineType: cloudsim.TypeSmall,
		Addresses: []api.Address{{Type: api.AddressInternalIP, Address: "10.0.0.1"}},
	})
	must.NoError(t, err)

	values := parse(t, everything)
	values["provider"] = map[string]any{"name": "sim", "config": map[string]any{"inline": string(config)}}
	values["controllers"], values["rbac"] = nil, nil
	delete(values, "controllers")
	delete(values, "servingCertificate")
	delete(values, "serviceMonitor")
	delete(values, "rbac")
	objects, err := render.Objects(load(t), values)
	must.NoError(t, err)
	must.NoError(t, cluster.Apply(t.Context(), withoutOperator(objects)))

	run(t, cluster, client)
	join(t, client, "rendered")
	awaitInitialized(t, client, "rendered")
}

// join registers a node as a kubelet does that waits for a cloud controller manager.
func join(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	_, err := client.CoreV1().Nodes().Create(t.Context(), nodeagent.Node(nodeagent.Options{Name: name}), metav1.CreateOptions{})
	must.NoError(t, err)
}

// awaitInitialized waits until a node is no longer one that waits.
func awaitInitialized(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	poll.Until(t, "node "+name+" is initialized", func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case node.Spec.ProviderID == "" || len(node.Spec.Taints) > 0 && node.Spec.Taints[0].Key == cloudproviderapi.TaintExternalCloudProvider:
			return fmt.Errorf("provider ID %q, taints %v", node.Spec.ProviderID, node.Spec.Taints)
		}
		return nil
	})
}

// run starts the container of the Deployment as a process, and returns the folders of its mounts. What differs from a kubelet's
// start is where the files are, the address and the port, and that the ServiceAccount's token comes by a kubeconfig.
func run(t *testing.T, cluster *localcluster.Cluster, client kubernetes.Interface) map[string]string {
	t.Helper()
	return runAt(t, cluster, client, localclustertest.FreePort(t))
}

// runAt is run with a secure port.
func runAt(t *testing.T, cluster *localcluster.Cluster, client kubernetes.Interface, port string) map[string]string {
	t.Helper()
	deployment, err := client.AppsV1().Deployments(render.Namespace).Get(t.Context(), render.Release, metav1.GetOptions{})
	must.NoError(t, err)
	mounts := mount(t, client, deployment)
	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), render.Namespace, deployment.Spec.Template.Spec.ServiceAccountName)
	must.NoError(t, err)
	var flags []string
	for _, arg := range deployment.Spec.Template.Spec.Containers[0].Args {
		for path, folder := range mounts {
			arg = strings.ReplaceAll(arg, path, folder)
		}
		if strings.HasPrefix(arg, "--secure-port=") {
			arg = "--secure-port=" + port
		}
		flags = append(flags, arg)
	}
	running := harnesstest.Start(t, nil, harness.Manager{Name: "daemon", Path: build(t), Kubeconfig: kubeconfig, Flags: flags})
	t.Cleanup(func() {
		must.NoError(t, running.Signal(syscall.SIGTERM))
		if code := localclustertest.AwaitEnd(t, running); code != 0 {
			t.Errorf("the daemon ended with %s", running.State())
		}
	})
	return mounts
}

// mount puts what the volumes of the Deployment hold into folders, and returns them by the path of their mount. What a file says of
// another mount is made to lead to its folder.
func mount(t *testing.T, client kubernetes.Interface, deployment *appsv1.Deployment) map[string]string {
	t.Helper()
	mounts, secrets := map[string]string{}, map[string]*corev1.Secret{}
	for _, volume := range deployment.Spec.Template.Spec.Volumes {
		if volume.Secret == nil {
			continue
		}
		secret, err := client.CoreV1().Secrets(render.Namespace).Get(t.Context(), volume.Secret.SecretName, metav1.GetOptions{})
		must.NoError(t, err)
		for _, mounted := range deployment.Spec.Template.Spec.Containers[0].VolumeMounts {
			if mounted.Name == volume.Name {
				mounts[mounted.MountPath], secrets[mounted.MountPath] = t.TempDir(), secret
			}
		}
	}
	for path, secret := range secrets {
		data := map[string][]byte{}
		for name, content := range secret.Data {
			for other, folder := range mounts {
				content = bytes.ReplaceAll(content, []byte(other), []byte(folder))
			}
			data[name] = content
		}
		project(t, mounts[path], data)
	}
	return mounts
}

// TestShippedManifestsApply puts the plain manifests on a real API server, as kubectl apply does.
func TestShippedManifestsApply(t *testing.T) {
	cluster := localclustertest.Start(t)
	must.NoError(t, cluster.Apply(t.Context(), []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: metallb-system}\n"))) // MetalLB's own
	for _, manifest := range render.Manifests {
		text, err := os.ReadFile(filepath.Join(root, "deploy", manifest.File))
		must.NoError(t, err)
		if err := cluster.Apply(t.Context(), text); err != nil {
			t.Errorf("deploy/%s: %v", manifest.File, err)
		}
	}
	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), render.Namespace, "cloud-controller-manager")
	must.NoError(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must.NoError(t, err)
	shipped, err := kubernetes.NewForConfig(config)
	must.NoError(t, err)
	if _, err := shipped.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the shipped ServiceAccount may not list nodes: %v", err)
	}
}
