package chart_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/dev/chart/render"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// project writes the files of a volume as a kubelet does: into a new folder, to which the link ..data is moved at once. The files
// themselves are links through ..data.
func project(t *testing.T, folder string, data map[string][]byte) {
	t.Helper()
	version, err := os.MkdirTemp(folder, "..version-")
	must.NoError(t, err)
	for name, content := range data {
		must.NoError(t, os.WriteFile(filepath.Join(version, name), content, 0o600))
	}
	next := filepath.Join(folder, "..data_tmp")
	must.NoError(t, os.Symlink(filepath.Base(version), next))
	before, _ := os.Readlink(filepath.Join(folder, "..data")) // there is none at first
	must.NoError(t, os.Rename(next, filepath.Join(folder, "..data")))
	for name := range data {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(folder, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	if before != "" {
		must.NoError(t, os.RemoveAll(filepath.Join(folder, before)))
	}
}

// TestARotatedSecretReachesTheRunningDaemon follows docs/how-to/rotate-credentials.md. The Secret's new content appears in the mounted folder. From
// then on the cloud accepts only the new token. No process restarts.
func TestARotatedSecretReachesTheRunningDaemon(t *testing.T) {
	cluster := localclustertest.Start(t)
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	must.NoError(t, err)
	var token atomic.Value
	token.Store(simtest.Token)
	cloud := simtest.Start(t, cloudsim.Options{
		Seed: cloudsim.DefaultSeed(1), Token: func() (string, error) { return token.Load().(string), nil },
	})
	config, err := os.ReadFile(cloud.ConfigFile)
	must.NoError(t, err)
	const mounted = "/etc/mooring/secrets/cloud-token"
	values := map[string]any{"image": map[string]any{"repository": render.Image}, "provider": map[string]any{
		"name": "sim", "secrets": []any{"cloud-token"},
		"config": map[string]any{"inline": strings.ReplaceAll(string(config), cloud.TokenFile, mounted+"/token")},
	}}
	_, err = client.CoreV1().Secrets(render.Namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "cloud-token"}, Data: map[string][]byte{"token": []byte(simtest.Token)},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
	objects, err := render.Objects(load(t), values)
	must.NoError(t, err)
	must.NoError(t, cluster.Apply(t.Context(), withoutOperator(objects)))

	mounts := run(t, cluster, client)
	join(t, client, "node-001")
	awaitInitialized(t, client, "node-001")

	token.Store("rotated")
	project(t, mounts[mounted], map[string][]byte{"token": []byte("rotated\n")})
	// A new instance: what the daemon has listed with the old token does not help.
	administrator, err := api.NewClient(api.ClientOptions{Endpoint: cloud.URL, Token: cloudsim.StaticToken("rotated")})
	must.NoError(t, err)
	t.Cleanup(administrator.CloseIdleConnections)
	_, err = administrator.CreateInstance(t.Context(), api.InstanceSpec{
		Name: "node-002", Zone: cloudsim.DefaultZones()[0], MachineType: cloudsim.TypeSmall,
		Addresses: []api.Address{{Type: api.AddressInternalIP, Address: "10.0.1.1"}},
	})
	must.NoError(t, err)
	join(t, client, "node-002")
	awaitInitialized(t, client, "node-002")
}
