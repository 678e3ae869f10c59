package standin

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/mooring-ccm/mooring/dev/plugins/compare"
)

// Where everything is.
const (
	Region = "eu-central-1"
	// Cluster is the ID of the cluster, by which the plugin tags what is its own.
	Cluster = "scenario"

	account = "123456789012"
	vpc     = "vpc-1"
)

// Cloud is one account with one VPC. Its methods may be called from several goroutines.
type Cloud struct {
	server *httptest.Server

	mu       sync.Mutex
	calls    []compare.Call
	problems []string
	serial   int // of the names that the cloud makes up

	instances        []*ec2types.Instance
	groups           []*securityGroup
	balancers        []*balancer
	networkBalancers []*networkBalancer
	targetGroups     []*targetGroup
}

// Start starts a cloud that ends with the test, and returns it with what a program has to know of it.
func Start(t testing.TB) (*Cloud, compare.Launch) {
	c := &Cloud{groups: []*securityGroup{nodesGroup()}}
	c.server = httptest.NewServer(c)
	t.Cleanup(c.server.Close)
	return c, c.launch()
}

// launch is a cloud config as of a manager that runs outside of the account, so it does not ask a metadata service who
// it is.
func (c *Cloud) launch() compare.Launch {
	config := fmt.Sprintf("[Global]\nRegion = %s\nVPC = %s\nSubnetID = %s\nKubernetesClusterID = %s\n",
		Region, vpc, subnets[0].id, Cluster)
	for i, service := range []string{"EC2", "Elastic Load Balancing", "Elastic Load Balancing v2"} {
		config += fmt.Sprintf("[ServiceOverride \"%d\"]\nService = %s\nRegion = %s\nURL = %s\nSigningRegion = %s\n",
			i+1, service, Region, c.server.URL, Region)
	}
	return compare.Launch{Config: config, Env: []string{
		"AWS_ACCESS_KEY_ID=" + accessKey, "AWS_SECRET_ACCESS_KEY=secret", "AWS_EC2_METADATA_DISABLED=true",
		// Nothing of the machine's own may be read.
		"AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_PROFILE=",
	}}
}

// Observe returns what the cloud was asked and what it holds.
func (c *Cloud) Observe(context.Context) (compare.Observation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return compare.Observation{Calls: slices.Clone(c.calls), State: c.state(), Problems: slices.Clone(c.problems)}, nil
}

// next returns a number that no resource has yet.
func (c *Cloud) next() int {
	c.serial++
	return c.serial
}
