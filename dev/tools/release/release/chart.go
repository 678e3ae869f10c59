package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/registry"

	"github.com/mooring-ccm/mooring/internal/tool/image"
)

// chartName is the name of the chart, and chartFolder where its sources are in the checkout.
const chartName = "mooring"

var chartFolder = filepath.Join("deploy", "charts", chartName)

// chart writes the chart as Helm packages it, and as Helm pushes it: an OCI artifact.
func (r *run) chart(ctx context.Context) error {
	packaged, err := r.packageChart()
	if err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	number := strings.TrimPrefix(r.Version, "v")
	if err := r.write(chartName+"-"+number+".tgz", packaged); err != nil {
		return err
	}
	if err := r.chartArtifact(ctx, packaged, number); err != nil {
		return fmt.Errorf("chart as an OCI artifact: %w", err)
	}
	return nil
}

// packageChart returns the chart's package with the version of the release. Helm's own packages have the time of their making in
// them.
func (r *run) packageChart() ([]byte, error) {
	loaded, err := loader.LoadDir(filepath.Join(r.Root, chartFolder))
	if err != nil {
		return nil, err
	}
	loaded.Metadata.Version, loaded.Metadata.AppVersion = strings.TrimPrefix(r.Version, "v"), r.Version
	folder := filepath.Join(r.scratch, "chart")
	if err := errors.Join(loaded.Validate(), chartutil.SaveDir(loaded, folder)); err != nil {
		return nil, err
	}
	return packed(folder, r.Created)
}

// chartArtifact has Helm push the chart to a registry in this process, and writes what is there then. So the format is Helm's own.
func (r *run) chartArtifact(ctx context.Context, packaged []byte, number string) error {
	server := httptest.NewServer(ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	client, err := registry.NewClient(registry.ClientOptPlainHTTP(), registry.ClientOptWriter(io.Discard))
	if err != nil {
		return err
	}
	reference := host + "/" + chartName + ":" + number
	pushed, err := client.Push(packaged, reference, registry.PushOptCreationTime(r.Created.UTC().Format(time.RFC3339)))
	if err != nil {
		return err
	}
	tag, err := name.NewTag(reference)
	if err != nil {
		return err
	}
	artifact, err := remote.Image(tag, remote.WithContext(ctx))
	if err != nil {
		return err
	}
	r.digests.Chart = pushed.Manifest.Digest
	file := filepath.Join(r.Output, chartName+"-"+number+"-chart.tar")
	return image.Archive(file, r.scratch, artifact, map[string]string{"org.opencontainers.image.ref.name": number}, r.Created)
}
