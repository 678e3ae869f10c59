package instances

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/config"
)

// Scheme is the scheme of provider IDs.
const Scheme = "openstack"

// naming says what of a config nodes have from it.
type naming struct {
	region     string
	regional   bool
	networking config.Networking
}

func namingOf(of *config.Config) naming {
	return naming{region: of.Global.Region, regional: of.Regional, networking: of.Networking}
}

// providerID returns openstack:///ID, or openstack://REGION/ID where provider IDs name the region.
func (n naming) providerID(id string) string {
	if n.regional {
		return Scheme + "://" + n.region + "/" + id
	}
	return Scheme + ":///" + id
}

// providerIDs is how provider IDs look. Some kubelets leave the scheme out.
var providerIDs = regexp.MustCompile(`^(?:` + Scheme + `://([^/]*))?/([^/]+)$`)

// parse returns the ID of the server that a provider ID stands for. An error is a provider.TerminalError: a provider ID that is not
// understood, or names another region, says nothing about whether a server exists.
func (n naming) parse(providerID string) (string, error) {
	match := providerIDs.FindStringSubmatch(providerID)
	if match == nil || uuid.Validate(match[2]) != nil {
		return "", provider.Terminal(fmt.Errorf("provider ID %q must look like %s:///ID or %s://REGION/ID with the UUID of a server",
			message.Line(providerID, 200), Scheme, Scheme))
	}
	if match[1] != "" && match[1] != n.region {
		return "", provider.Terminal(fmt.Errorf("provider ID %q is of region %s, and this manager is configured for %s",
			message.Line(providerID, 200), match[1], n.region))
	}
	return match[2], nil
}

// deleted reports whether a server is one that does not exist. One that waits to be reclaimed is in no list of Nova's, and counts as
// deleted however it is asked for.
func deleted(of server) bool { return of.Status == "DELETED" || of.Status == "SOFT_DELETED" }

// unreachable reports whether nothing but the ID of a server is known, because its cell is down.
func unreachable(of server) bool { return of.Status == "UNKNOWN" && of.Flavor.OriginalName == "" }

// stateOf says whether a server runs. Only one that is SHUTOFF is stopped, as upstream has it: volumes of one that is suspended, paused
// or shelved stay attached to it, and it may go on at any time.
func stateOf(of server) provider.InstanceState {
	switch of.Status {
	case "SHUTOFF":
		return provider.InstanceStopped
	case "ACTIVE", "BUILD", "HARD_REBOOT", "MIGRATING", "PASSWORD", "REBOOT", "REBUILD", "RESCUE", "RESIZE", "REVERT_RESIZE", "VERIFY_RESIZE":
		return provider.InstanceRunning
	default: // ERROR, PAUSED, SHELVED, SHELVED_OFFLOADED, SUSPENDED, UNKNOWN and what Nova may have one day
		return provider.InstanceStateUnknown
	}
}

// nodeName is the name of a server's node. Names of nodes have no capitals.
func nodeName(of server) types.NodeName { return types.NodeName(strings.ToLower(of.Name)) }

// instanceOf returns a server as an instance.
func (n naming) instanceOf(of server, known ports) provider.Instance {
	return provider.Instance{
		NodeName: nodeName(of),
		State:    stateOf(of),
		InstanceMetadata: cloudprovider.InstanceMetadata{
			ProviderID:    n.providerID(of.ID),
			InstanceType:  label(of.Flavor.OriginalName),
			NodeAddresses: addressesOf(of, known, n.networking),
			Zone:          label(of.AvailabilityZone),
			Region:        n.region,
		},
	}
}

// notInLabel is what the value of a label does not have.
var notInLabel = regexp.MustCompile(`[^-A-Za-z0-9_.]+`)

// label makes the value of a label of a name: what is not allowed becomes a hyphen, as upstream has it for zones.
func label(name string) string {
	made := notInLabel.ReplaceAllString(name, "-")
	made = strings.TrimLeft(made, "-_.")
	return strings.TrimRight(made[:min(len(made), 63)], "-_.")
}
