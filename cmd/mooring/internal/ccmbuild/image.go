package ccmbuild

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mooring-ccm/mooring/internal/tool/image"
)

// projectURL is where Mooring's sources are.
const projectURL = "https://" + Module

// imageInput is what an image is made of.
type imageInput struct {
	request  Request
	found    Found
	result   Result
	programs []built
}

// readCertificates finds the root certificates for the image, before anything else takes minutes.
func (b *builder) readCertificates() error {
	if b.options.Image.File == "" {
		return nil
	}
	file := b.options.Image.Certificates
	if file != "" {
		file = b.absolute(file)
	}
	from, count, certificates, err := image.Certificates(file)
	if err != nil {
		return fmt.Errorf("%w; name a file of them", err)
	}
	b.note("root certificates: %d from %s", count, from)
	b.certificates = certificates
	return nil
}

// writeImage writes the image and the list of its modules where they are moved into place from, and returns its digest.
func (b *builder) writeImage(ctx context.Context, in imageInput, targets map[string]*target) (string, error) {
	step := b.display.Begin("writing the image")
	digest, err := b.makeImage(ctx, in, targets)
	if err != nil {
		step.Fail()
		return "", err
	}
	step.Done("%s", digest)
	return digest, nil
}

func (b *builder) makeImage(ctx context.Context, in imageInput, targets map[string]*target) (string, error) {
	asked := b.options.Image
	var programs []image.Program
	for _, program := range in.programs {
		programs = append(programs, image.Program{
			Platform: v1.Platform{OS: program.platform.OS, Architecture: program.platform.Arch, Variant: program.platform.Variant},
			File:     program.file,
		})
	}
	name := in.request.Program()
	sbom, err := image.SBOM(name, in.found.MooringVersion(), asked.Created, programs)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(targets["sbom"].staged(), sbom, 0o644); err != nil {
		return "", &OutputError{File: targets["sbom"].file, Err: err}
	}
	digest, err := image.Write(ctx, targets["image"].staged(), b.scratch, image.Options{
		Name: name, Programs: programs, Certificates: b.certificates, SBOM: sbom,
		Labels: labels(in, asked.Labels), Reference: asked.Reference, Created: asked.Created,
	})
	if err != nil {
		return "", &OutputError{File: targets["image"].file, Err: err}
	}
	return digest.String(), nil
}

// labels are those of the image: what is known by the keys of image-spec's annotations.md, and what was asked for.
func labels(in imageInput, asked map[string]string) map[string]string {
	all := map[string]string{
		"org.opencontainers.image.title":       in.request.Program(),
		"org.opencontainers.image.description": description(in.result),
		"org.opencontainers.image.version":     in.found.MooringVersion(),
		"org.opencontainers.image.source":      projectURL,
	}
	if commit := in.found.Revision.String(); commit != "" {
		all["org.opencontainers.image.revision"] = commit
	}
	maps.Copy(all, asked)
	return all
}

func description(result Result) string {
	text := "Mooring, built with Kubernetes " + result.Kubernetes
	if len(result.Providers) > 0 {
		text += ", with the providers " + strings.Join(result.Providers, ", ")
	}
	return text
}
