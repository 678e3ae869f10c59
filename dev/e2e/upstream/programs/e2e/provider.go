package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/test/e2e/framework"
)

// init registers a provider by the name of AWS's: specs of deleted nodes skip unless the provider is called aws, azure or gce. AWS's own,
// which does nothing, is not linked.
func init() {
	framework.RegisterProvider("aws", func() (framework.ProviderInterface, error) { return provider{}, nil })
}

// provider asks who listens on a socket, which the environment names, to delete machines. It can do nothing else.
type provider struct{ framework.NullProvider }

func (provider) DeleteNode(node *v1.Node) error {
	connection, err := net.Dial("unix", os.Getenv("DELETE_NODE"))
	if err != nil {
		return fmt.Errorf("delete the machine of node %s: %w", node.Name, err)
	}
	defer connection.Close()
	fmt.Fprintln(connection, node.Name)
	answer, err := io.ReadAll(connection)
	if len(answer) > 0 {
		err = errors.Join(err, errors.New(string(answer)))
	}
	return err
}
