package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/registry"

	"github.com/mooring-ccm/mooring/internal/image"
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
	return r.chartArtifact(ctx, packaged, number)
}

// packageChart returns the chart's package with the version of the release. Helm's own packages have the time of their making in
// them, so the files are packed again.
func (r *run) packageChart() ([]byte, error) {
	loaded, err := loader.LoadDir(filepath.Join(r.Root, chartFolder))
	if err != nil {
		return nil, err
	}
	loaded.Metadata.Version, loaded.Metadata.AppVersion = strings.TrimPrefix(r.Version, "v"), r.Version
	file, err := chartutil.Save(loaded, r.scratch)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	files, err := unpacked(content)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	err = packTo(&packed, r.Created, files)
	return packed.Bytes(), err
}

// unpacked returns the files of a compressed tar in their order.
func unpacked(content []byte) ([]packedFile, error) {
	compressed, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	var files []packedFile
	for packed := tar.NewReader(compressed); ; {
		header, err := packed.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(packed)
		if err != nil {
			return nil, err
		}
		files = append(files, packedFile{header.Name, 0o644, text})
	}
}

// chartArtifact has Helm push the chart to a registry in this process, and writes what is there then. So the format is Helm's own.
func (r *run) chartArtifact(ctx context.Context, packaged []byte, number string) error {
	server := httptest.NewServer(ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	client, err := registry.NewClient(registry.ClientOptPlainHTTP(), registry.ClientOptWriter(io.Discard))
	if err != nil {
		return fmt.Errorf("chart as an OCI artifact: %w", err)
	}
	reference := host + "/" + chartName + ":" + number
	pushed, err := client.Push(packaged, reference, registry.PushOptCreationTime(r.Created.UTC().Format(time.RFC3339)))
	if err != nil {
		return fmt.Errorf("chart as an OCI artifact: %w", err)
	}
	tag, err := name.NewTag(reference)
	if err != nil {
		return fmt.Errorf("chart as an OCI artifact: %w", err)
	}
	artifact, err := remote.Image(tag, remote.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("chart as an OCI artifact: %w", err)
	}
	r.digests.Chart = pushed.Manifest.Digest
	file := filepath.Join(r.Output, chartName+"-"+number+"-chart.tar")
	return image.Archive(file, r.scratch, artifact, map[string]string{"org.opencontainers.image.ref.name": number}, r.Created)
}
