package localcluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// fieldManager is who owns the fields that Apply sets.
const fieldManager = "localcluster"

// applier holds the client of Apply, which learns the server's resource types once.
type applier struct {
	mu     sync.Mutex
	client client.Client
}

// Apply applies the YAML documents of a manifest in their order, by server-side apply with all rights. It takes over fields of other owners.
func (c *Cluster) Apply(ctx context.Context, manifest []byte) error {
	objects, err := decodeManifest(manifest)
	if err != nil {
		return fmt.Errorf("apply manifest: %w", err)
	}
	applying, err := c.applyClient()
	if err != nil {
		return fmt.Errorf("apply manifest: %w", err)
	}
	for _, object := range objects {
		err := applying.Apply(ctx, client.ApplyConfigurationFromUnstructured(object),
			client.FieldOwner(fieldManager), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
		}
	}
	return nil
}

func (c *Cluster) applyClient() (client.Client, error) {
	c.applier.mu.Lock()
	defer c.applier.mu.Unlock()
	if c.applier.client != nil {
		return c.applier.client, nil
	}
	created, err := client.New(c.AdminConfig(), client.Options{})
	if err != nil {
		return nil, err
	}
	c.applier.client = created
	return created, nil
}

// decodeManifest returns the objects of a stream of YAML documents. Empty documents are left out.
func decodeManifest(manifest []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for number := 1; ; number++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", number, err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, fmt.Errorf("document %d: %w", number, err)
		}
		if len(object.Object) == 0 {
			continue
		}
		if object.GetKind() == "" || object.GetName() == "" {
			return nil, fmt.Errorf("document %d: an object needs kind and metadata.name", number)
		}
		objects = append(objects, object)
	}
}
