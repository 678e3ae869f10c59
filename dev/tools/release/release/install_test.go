package release_test

import (
	"context"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/registry"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/dev/tools/release/release"
	"github.com/mooring-ccm/mooring/internal/tool/image"
)

const (
	namespace  = "kube-system"
	deployment = "mooring"
)

// install pushes image and chart of a release to a registry, pulls the image by its digest, and installs, upgrades and rolls back the
// chart from there on a real API server, with Helm's own library.
func install(t *testing.T, folder string, digests release.Digests) {
	server := httptest.NewServer(ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	push(t, filepath.Join(folder, release.Daemon+"-"+version+"-image.tar"), host+"/ccm:"+version, digests.Image)
	push(t, filepath.Join(folder, "mooring-"+version[1:]+"-chart.tar"), host+"/charts/mooring:"+version[1:], digests.Chart)
	byDigest, err := name.NewDigest(host + "/ccm@" + digests.Image)
	must.NoError(t, err)
	pulled, err := remote.Image(byDigest)
	must.NoError(t, err)
	must.NoError(t, validate.Image(pulled))

	cluster, config := startCluster(t)
	packaged := locate(t, config, host)
	values := map[string]any{
		"image":    map[string]any{"repository": host + "/ccm", "digest": digests.Image},
		"provider": map[string]any{"name": "sim"},
	}
	installing := action.NewInstall(config)
	installing.ReleaseName, installing.Namespace = deployment, namespace
	_, err = installing.RunWithContext(t.Context(), packaged, values)
	must.NoError(t, err)
	expect(t, cluster, host+"/ccm@"+digests.Image, 2)

	upgrading := action.NewUpgrade(config)
	upgrading.Namespace, upgrading.ReuseValues = namespace, true
	_, err = upgrading.RunWithContext(t.Context(), deployment, packaged, map[string]any{
		"replicas": 3, "image": map[string]any{"digest": "", "tag": "v0.2.0"},
	})
	must.NoError(t, err)
	expect(t, cluster, host+"/ccm:v0.2.0", 3)

	back := action.NewRollback(config)
	back.Version = 1
	must.NoError(t, back.Run(deployment))
	expect(t, cluster, host+"/ccm@"+digests.Image, 2)
}

func push(t *testing.T, file, reference, want string) {
	t.Helper()
	digest, err := image.Push(t.Context(), file, t.TempDir(), reference)
	if err != nil || digest.String() != want {
		t.Fatalf("pushed as %s, want %s: %v", digest, want, err)
	}
}

// startCluster starts a control plane that ends with the test, and returns how Helm reaches it.
func startCluster(t *testing.T) (kubernetes.Interface, *action.Configuration) {
	t.Helper()
	binaries, err := localcluster.Build(t.Context(), localcluster.BuildOptions{Parts: []localcluster.Part{localcluster.ControlPlane}, Progress: os.Stderr})
	must.NoError(t, err)
	cluster, err := localcluster.Start(t.Context(), localcluster.Options{Binaries: binaries})
	must.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), poll.Deadline)
		defer cancel()
		if err := cluster.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	must.NoError(t, err)
	flags, kubeconfig, where := genericclioptions.NewConfigFlags(false), cluster.AdminKubeconfig(), namespace
	flags.KubeConfig, flags.Namespace = &kubeconfig, &where
	config := &action.Configuration{}
	must.NoError(t, config.Init(flags, namespace, "secret", t.Logf))
	config.RegistryClient, err = registry.NewClient(registry.ClientOptPlainHTTP(), registry.ClientOptWriter(io.Discard))
	must.NoError(t, err)
	return client, config
}

// locate pulls the chart from the registry, as helm does for a name that begins with oci.
func locate(t *testing.T, config *action.Configuration, host string) *chart.Chart {
	t.Helper()
	settings := cli.New()
	settings.RepositoryCache = t.TempDir()
	pulling := action.NewInstall(config)
	pulling.Version, pulling.PlainHTTP = version[1:], true
	file, err := pulling.LocateChart("oci://"+host+"/charts/mooring", settings)
	must.NoError(t, err)
	loaded, err := loader.Load(file)
	must.NoError(t, err)
	if loaded.Metadata.Version != version[1:] || loaded.Metadata.AppVersion != version {
		t.Errorf("the chart has the version %s, and runs %s", loaded.Metadata.Version, loaded.Metadata.AppVersion)
	}
	return loaded
}

// expect looks which image runs, and how often.
func expect(t *testing.T, client kubernetes.Interface, wantImage string, wantReplicas int32) {
	t.Helper()
	found, err := client.AppsV1().Deployments(namespace).Get(t.Context(), deployment, metav1.GetOptions{})
	must.NoError(t, err)
	if have := found.Spec.Template.Spec.Containers[0].Image; have != wantImage || *found.Spec.Replicas != wantReplicas {
		t.Errorf("%d replicas of %s run, want %d of %s", *found.Spec.Replicas, have, wantReplicas, wantImage)
	}
}
