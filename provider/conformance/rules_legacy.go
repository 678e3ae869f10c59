package conformance

import (
	"context"
	"errors"
	"reflect"

	cloudprovider "k8s.io/cloud-provider"
)

// legacyRules are about what the older interfaces say of an instance.
func legacyRules() []Rule {
	return []Rule{
		{
			ID:   "legacy-id",
			Text: "InstanceID of a node's name makes a provider ID, PROVIDERNAME://ID, by which the instance exists and runs.",
			Source: Source{"cloudprovider.Instances.InstanceID",
				"InstanceID returns the cloud provider ID of the node with the specified NodeName."},
			Needs: []Need{NeedInstances, NeedInstance},
			check: checkLegacyID,
		},
		{
			ID:   "legacy-missing",
			Text: "InstanceID of an instance that does not exist is \"\" and InstanceNotFound itself, which callers compare with ==.",
			Source: Source{"cloudprovider.Instances.InstanceID",
				`Note that if the instance does not exist, we must return ("", cloudprovider.InstanceNotFound)`},
			Needs: []Need{NeedInstances},
			check: func(ctx context.Context, t *trial) error {
				//nolint:errorlint // The identity of the error is the rule.
				if id, err := t.legacy().InstanceID(ctx, t.missingName()); id != "" || err != cloudprovider.InstanceNotFound {
					t.sawf("InstanceID of %s, which does not exist: %q, %v", t.missingName(), id, err)
				}
				return nil
			},
		},
		{
			ID:   "legacy-ways-agree",
			Text: "Addresses and type are the same by name and by provider ID.",
			Source: Source{"cloudprovider.Instances.NodeAddressesByProviderID",
				"NodeAddressesByProviderID returns the addresses of the specified instance."},
			Needs: []Need{NeedInstances, NeedInstance},
			check: checkLegacyAgrees,
		},
		{
			ID:   "legacy-deleted",
			Text: "An instance that was deleted does not exist: false and no error.",
			Source: Source{"cloudprovider.Instances.InstanceExistsByProviderID",
				"InstanceExistsByProviderID returns true if the instance for the given provider exists."},
			Needs: []Need{NeedInstances, NeedCreate, NeedDelete},
			check: checkLegacyDeleted,
		},
		{
			ID:   "legacy-stopped-exist",
			Text: "An instance that is shut down exists, and is said to be shut down where that is implemented.",
			Source: Source{"cloudprovider.Instances.InstanceExistsByProviderID",
				"This method should still return true for instances that exist but are stopped/sleeping."},
			Needs: []Need{NeedInstances, NeedCreate, NeedStop},
			check: checkLegacyStopped,
		},
	}
}

// legacyHarmonyRules are about a cloud that fails, calls that have to end, and several ways to ask the same.
func legacyHarmonyRules() []Rule {
	return []Rule{
		{
			ID:     "legacy-failure-is-no-absence",
			Text:   "When the cloud fails, an instance that exists is never said not to, nor is the error InstanceNotFound.",
			Source: deletes,
			Needs:  []Need{NeedInstances, NeedInstance, NeedFault},
			check:  checkLegacyFailure,
		},
		{
			ID:     "legacy-context",
			Text:   "A call whose context has been canceled returns soon, with an error or the right answer.",
			Source: contexts,
			Needs:  []Need{NeedInstances, NeedInstance},
			check:  checkLegacyContext,
		},
		{
			ID:     "legacy-agrees-with-v2",
			Text:   "A provider that has both interfaces says the same by both.",
			Source: Source{"cloudprovider.Interface.InstancesV2", "Implementing InstancesV2 is behaviorally identical to Instances"},
			Needs:  []Need{NeedInstances, NeedInstancesV2, NeedInstance},
			check:  checkLegacyAgreesWithV2,
		},
		{
			ID:   "zones-ways-agree",
			Text: "The zone of an instance is the same by provider ID and by the node's name.",
			Source: Source{"cloudprovider.Zones.GetZoneByProviderID",
				"GetZoneByProviderID returns the Zone containing the current zone and locality region of the node specified by providerID"},
			Needs: []Need{NeedInstances, NeedZones, NeedInstance},
			check: checkZonesAgree,
		},
	}
}

func checkLegacyID(ctx context.Context, t *trial) error {
	instance, err := t.instance(ctx)
	if err != nil {
		return err
	}
	providerID, err := cloudprovider.GetInstanceProviderID(ctx, t.Cloud, instance.NodeName)
	if err != nil {
		return err
	}
	if exists, err := t.legacy().InstanceExistsByProviderID(ctx, providerID); !exists || err != nil {
		t.sawf("InstanceExistsByProviderID of %s, from InstanceID of %s: %t, %v", providerID, instance.NodeName, exists, err)
	}
	if shutdown, err := t.legacy().InstanceShutdownByProviderID(ctx, providerID); shutdown || !allowed(err) {
		t.sawf("InstanceShutdownByProviderID of %s, which runs: %t, %v", providerID, shutdown, err)
	}
	return nil
}

func checkLegacyAgrees(ctx context.Context, t *trial) error {
	instance, err := t.instance(ctx)
	if err != nil {
		return err
	}
	byName, err := t.legacy().NodeAddresses(ctx, instance.NodeName)
	if !allowed(err) {
		return err
	}
	byID, errByID := t.legacy().NodeAddressesByProviderID(ctx, instance.ProviderID)
	if errByID != nil {
		return errByID
	}
	t.wellFormed("NodeAddressesByProviderID", byID)
	if err == nil && !reflect.DeepEqual(byName, byID) {
		t.sawf("NodeAddresses of %s: %v; NodeAddressesByProviderID of %s: %v", instance.NodeName, byName, instance.ProviderID, byID)
	}
	typeByName, err := t.legacy().InstanceType(ctx, instance.NodeName)
	typeByID, errByID := t.legacy().InstanceTypeByProviderID(ctx, instance.ProviderID)
	if !allowed(err) || !allowed(errByID) || err == nil && errByID == nil && typeByName != typeByID {
		t.sawf("InstanceType: %q, %v; InstanceTypeByProviderID: %q, %v", typeByName, err, typeByID, errByID)
	}
	return nil
}

func checkLegacyDeleted(ctx context.Context, t *trial) error {
	instance, err := t.instance(ctx)
	if err != nil {
		return err
	}
	if err := t.delete(ctx, instance); err != nil {
		return err
	}
	if exists, err := t.legacy().InstanceExistsByProviderID(ctx, instance.ProviderID); exists || err != nil {
		t.sawf("InstanceExistsByProviderID of %s, which was deleted: %t, %v", instance.ProviderID, exists, err)
	}
	return nil
}

func checkLegacyStopped(ctx context.Context, t *trial) error {
	instance, err := t.instance(ctx)
	if err != nil {
		return err
	}
	if err := t.stop(ctx, instance); err != nil {
		return err
	}
	if exists, err := t.legacy().InstanceExistsByProviderID(ctx, instance.ProviderID); !exists || err != nil {
		t.sawf("InstanceExistsByProviderID of a stopped instance: %t, %v", exists, err)
	}
	shutdown, err := t.legacy().InstanceShutdownByProviderID(ctx, instance.ProviderID)
	if !allowed(err) || err == nil && !shutdown {
		t.sawf("InstanceShutdownByProviderID of a stopped instance: %t, %v", shutdown, err)
	}
	if id, err := t.legacy().InstanceID(ctx, instance.NodeName); id == "" || err != nil {
		t.sawf("InstanceID of a stopped instance: %q, %v", id, err)
	}
	return nil
}

func checkLegacyFailure(ctx context.Context, t *trial) error {
	instance, err := t.instance(ctx)
	if err != nil {
		return err
	}
	return t.faulty(ctx, FaultError, func() {
		if exists, err := t.legacy().InstanceExistsByProviderID(ctx, instance.ProviderID); err == nil && !exists {
			t.sawf("InstanceExistsByProviderID: %t, and no error", exists)
		}
		id, err := t.legacy().InstanceID(ctx, instance.NodeName)
		if err == nil && id == "" || errors.Is(err, cloudprovider.InstanceNotFound) {
			t.sawf("InstanceID: %q, %v", id, err)
		}
	})
}

func checkLegacyContext(ctx context.Context, t *trial) error {
	instance, err := t.instance(ctx)
	if err != nil {
		return err
	}
	t.endWithContext(ctx, []named{
		{"InstanceExistsByProviderID", func(ctx context.Context) error {
			exists, err := t.legacy().InstanceExistsByProviderID(ctx, instance.ProviderID)
			return answered(exists, err)
		}},
		{"InstanceID", func(ctx context.Context) error {
			id, err := t.legacy().InstanceID(ctx, instance.NodeName)
			return answered(id != "", err)
		}},
		{"NodeAddressesByProviderID", func(ctx context.Context) error {
			addresses, err := t.legacy().NodeAddressesByProviderID(ctx, instance.ProviderID)
			return answered(len(addresses) > 0, err)
		}},
	})
	return nil
}

func checkLegacyAgreesWithV2(ctx context.Context, t *trial) error {
	instance, err := t.instance(ctx)
	if err != nil {
		return err
	}
	metadata, err := t.v2().InstanceMetadata(ctx, namedNode(instance.NodeName))
	if err != nil {
		return err
	}
	addresses, err := t.legacy().NodeAddressesByProviderID(ctx, instance.ProviderID)
	if !allowed(err) || err == nil && !reflect.DeepEqual(addresses, metadata.NodeAddresses) {
		t.sawf("addresses: %v, %v; by InstancesV2: %v", addresses, err, metadata.NodeAddresses)
	}
	kind, err := t.legacy().InstanceTypeByProviderID(ctx, instance.ProviderID)
	if !allowed(err) || err == nil && kind != metadata.InstanceType {
		t.sawf("type: %q, %v; by InstancesV2: %q", kind, err, metadata.InstanceType)
	}
	return nil
}

func checkZonesAgree(ctx context.Context, t *trial) error {
	instance, err := t.instance(ctx)
	if err != nil {
		return err
	}
	zones, _ := t.Cloud.Zones()
	byID, err := zones.GetZoneByProviderID(ctx, instance.ProviderID)
	if err != nil {
		return err
	}
	byName, err := zones.GetZoneByNodeName(ctx, instance.NodeName)
	if !allowed(err) || err == nil && byName != byID {
		t.sawf("GetZoneByProviderID: %+v; GetZoneByNodeName: %+v, %v", byID, byName, err)
	}
	return nil
}
