// Package sub registers the provider "mycloud".
package sub

import (
	"errors"
	"io"

	cloudprovider "k8s.io/cloud-provider"
)

func init() {
	cloudprovider.RegisterCloudProvider("mycloud", func(io.Reader) (cloudprovider.Interface, error) {
		return nil, errors.New("this cloud is down")
	})
}
