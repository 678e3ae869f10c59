package double

import (
	"context"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/simulation/draw"
)

// legacy are the interfaces from before InstancesV2. Managers call none of the methods that are missing.
type legacy struct {
	cloudprovider.Instances
	*plugin
}

// ask answers a question about an instance, by its ID or by a name.
func (l legacy) ask(ctx context.Context, method, name, id string, work func(number int, dice *rand.Rand)) error {
	return l.call(ctx, method, name, arguments{}, func(dice *rand.Rand) error {
		number, found := l.world.look(name, id, l.world.lag(draw.LaggingAnswers, dice))
		if !found {
			return cloudprovider.InstanceNotFound
		}
		work(number, dice)
		return nil
	})
}

func (l legacy) addresses(ctx context.Context, method, name, id string) (addresses []corev1.NodeAddress, err error) {
	err = l.ask(ctx, method, name, id, func(number int, dice *rand.Rand) { addresses = l.world.metadata(name, number, dice).NodeAddresses })
	return addresses, err
}

// NodeAddresses implements cloudprovider.Instances.
func (l legacy) NodeAddresses(ctx context.Context, name types.NodeName) ([]corev1.NodeAddress, error) {
	return l.addresses(ctx, "NodeAddresses", string(name), "")
}

// NodeAddressesByProviderID implements cloudprovider.Instances.
func (l legacy) NodeAddressesByProviderID(ctx context.Context, id string) ([]corev1.NodeAddress, error) {
	return l.addresses(ctx, "NodeAddressesByProviderID", nodeOf(id), id)
}

// InstanceID implements cloudprovider.Instances.
func (l legacy) InstanceID(ctx context.Context, name types.NodeName) (id string, err error) {
	err = l.ask(ctx, "InstanceID", string(name), "", func(number int, _ *rand.Rand) { id = instanceID(string(name), number) })
	return id, err
}

// InstanceType implements cloudprovider.Instances.
func (l legacy) InstanceType(ctx context.Context, name types.NodeName) (string, error) {
	return instanceType, l.ask(ctx, "InstanceType", string(name), "", func(int, *rand.Rand) {})
}

// InstanceTypeByProviderID implements cloudprovider.Instances.
func (l legacy) InstanceTypeByProviderID(ctx context.Context, id string) (string, error) {
	return instanceType, l.ask(ctx, "InstanceTypeByProviderID", nodeOf(id), id, func(int, *rand.Rand) {})
}

// InstanceExistsByProviderID implements cloudprovider.Instances.
func (l legacy) InstanceExistsByProviderID(ctx context.Context, id string) (exists bool, err error) {
	name := nodeOf(id)
	err = l.call(ctx, "InstanceExistsByProviderID", name, arguments{answers: answers{is: &exists}}, func(dice *rand.Rand) error {
		_, exists = l.world.look(name, id, l.world.lag(draw.LaggingAnswers, dice))
		return nil
	})
	return exists, err
}

// InstanceShutdownByProviderID implements cloudprovider.Instances.
func (l legacy) InstanceShutdownByProviderID(ctx context.Context, id string) (off bool, err error) {
	err = l.call(ctx, "InstanceShutdownByProviderID", nodeOf(id), arguments{answers: answers{is: &off}}, func(dice *rand.Rand) error {
		off = l.world.draw.Plugin.Has(draw.AlternatingPower) && dice.IntN(2) == 0
		return nil
	})
	return off, err
}

// zone is where all instances are.
var zone = cloudprovider.Zone{FailureDomain: cloudZone, Region: cloudRegion}

// GetZone implements cloudprovider.Zones.
func (l legacy) GetZone(context.Context) (cloudprovider.Zone, error) { return zone, nil }

// GetZoneByProviderID implements cloudprovider.Zones.
func (l legacy) GetZoneByProviderID(ctx context.Context, id string) (cloudprovider.Zone, error) {
	return zone, l.ask(ctx, "GetZoneByProviderID", nodeOf(id), id, func(int, *rand.Rand) {})
}

// GetZoneByNodeName implements cloudprovider.Zones.
func (l legacy) GetZoneByNodeName(ctx context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	return zone, l.ask(ctx, "GetZoneByNodeName", string(name), "", func(int, *rand.Rand) {})
}
