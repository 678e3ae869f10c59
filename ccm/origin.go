package ccm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"

	"k8s.io/client-go/kubernetes"
)

// programDigest is the digest of the program's file: a version may stay the same while a plugin of one's own changes.
var programDigest = sync.OnceValues(func() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("file of this program: %w", err)
	}
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("file of this program: %w", err)
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", fmt.Errorf("reading the file of this program: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
})

// digestOf returns the digest of a cloud config.
func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// origin returns the digest of what load balancers are made by: this program, its cloud config as the plugin was built from it and as it is now,
// and the name of the cluster.
func (c *config) origin(ctx context.Context, client kubernetes.Interface) (string, error) {
	program, err := programDigest()
	if err != nil {
		return "", err
	}
	var content []byte
	switch file := c.component.KubeCloudShared.CloudProvider.CloudConfigFile; {
	case c.configObject != nil:
		object, _, err := c.configObject.get(ctx, client)
		if err != nil {
			return "", fmt.Errorf("reading %s: %w", c.configObject, err)
		}
		if content, err = c.configObject.content(object); err != nil {
			return "", err
		}
	case file != "":
		if content, err = os.ReadFile(file); err != nil {
			return "", fmt.Errorf("--cloud-config: %w", err)
		}
	}
	all, err := json.Marshal([]string{program, c.configRead, digestOf(content), c.component.KubeCloudShared.ClusterName})
	if err != nil {
		return "", fmt.Errorf("encoding: %w", err)
	}
	return digestOf(all), nil
}
