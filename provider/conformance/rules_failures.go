package conformance

import (
	"context"
	"errors"
	"regexp"

	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/provider"
)

// deletes is why nothing but the cloud's own word may be reported as absence.
var deletes = Source{"cloudprovider.Instances.InstanceExistsByProviderID",
	"If false is returned with no error, the instance will be immediately deleted by the cloud controller manager."}

// contexts is why a call ends with its context.
var contexts = Source{"package provider", "A call ends when its context does, with an error, unless it has the answer already."}

func instanceFailureRules() []Rule {
	return []Rule{
		{
			ID:     "instances-foreign-id",
			Text:   "A provider ID that is not of this provider is an error, and never said not to exist.",
			Source: deletes,
			Needs:  []Need{NeedInstancesV2},
			check:  checkForeignID,
		},
		{
			ID:     "instances-failure-is-no-absence",
			Text:   "When the cloud fails, an instance that exists is never said not to, nor is the error InstanceNotFound.",
			Source: deletes,
			Needs:  []Need{NeedInstancesV2, NeedInstance, NeedFault},
			check: func(ctx context.Context, t *trial) error {
				return checkNoAbsence(ctx, t, FaultError)
			},
		},
		{
			ID:     "instances-throttled",
			Text:   "When the cloud throttles, the error says so: by its type, ThrottledError, or by words such as 429 or throttled.",
			Source: Source{"provider.ThrottledError", "ThrottledError says that the cloud refused a call because of a quota."},
			Needs:  []Need{NeedInstancesV2, NeedInstance, NeedFault},
			check:  checkThrottled,
		},
		{
			ID:     "instances-context",
			Text:   "A call whose context has been canceled returns soon, with an error or the right answer.",
			Source: contexts,
			Needs:  []Need{NeedInstancesV2, NeedInstance},
			check: func(ctx context.Context, t *trial) error {
				calls, err := t.instanceCalls(ctx)
				if err != nil {
					return err
				}
				t.endWithContext(ctx, calls)
				return nil
			},
		},
		{
			ID:     "instances-deadline",
			Text:   "A call that the cloud does not answer returns by its deadline, with an error or the right answer.",
			Source: contexts,
			Needs:  []Need{NeedInstancesV2, NeedInstance, NeedFault},
			check: func(ctx context.Context, t *trial) error {
				calls, err := t.instanceCalls(ctx)
				if err != nil {
					return err
				}
				return t.endWithDeadline(ctx, calls)
			},
		},
	}
}

// instanceCalls are the calls of InstancesV2 for an instance that exists. InstanceShutdown is none of them: a cloud whose instances
// are never shut down need not be asked.
func (t *trial) instanceCalls(ctx context.Context) ([]named, error) {
	instance, err := t.instance(ctx)
	if err != nil {
		return nil, err
	}
	node := namedNode(instance.NodeName)
	node.Spec.ProviderID = instance.ProviderID
	return []named{
		{"InstanceExists", func(ctx context.Context) error {
			exists, err := t.v2().InstanceExists(ctx, node)
			return answered(exists, err)
		}},
		{"InstanceMetadata", func(ctx context.Context) error {
			metadata, err := t.v2().InstanceMetadata(ctx, node)
			return answered(metadata != nil && metadata.ProviderID == instance.ProviderID, err)
		}},
	}, nil
}

func checkForeignID(ctx context.Context, t *trial) error {
	node := namedNode(t.missingName())
	node.Spec.ProviderID = "not-" + t.Cloud.ProviderName() + "://elsewhere/i-1"
	if exists, err := t.v2().InstanceExists(ctx, node); err == nil {
		t.sawf("InstanceExists of a node with provider ID %q: %t, and no error", node.Spec.ProviderID, exists)
	}
	return nil
}

func checkNoAbsence(ctx context.Context, t *trial, fault Fault) error {
	instance, err := t.instance(ctx)
	if err != nil {
		return err
	}
	byID := namedNode(instance.NodeName)
	byID.Spec.ProviderID = instance.ProviderID
	return t.faulty(ctx, fault, func() {
		for _, node := range []*v1.Node{byID, namedNode(instance.NodeName)} {
			if exists, err := t.v2().InstanceExists(ctx, node); err == nil && !exists {
				t.sawf("InstanceExists by %s: %t, and no error", askedBy(node), exists)
			}
			metadata, err := t.v2().InstanceMetadata(ctx, node)
			if err == nil && metadata == nil || errors.Is(err, provider.ErrInstanceNotFound) {
				t.sawf("InstanceMetadata by %s: %v, %v", askedBy(node), metadata, err)
			}
		}
	})
}

// saysThrottled finds the words by which clouds refuse a call over quota. The manager's own classification is much stricter, because
// names of objects in an error may look like these words. Here the cloud is known to throttle, and all that is looked for is
// whether its answer has been dropped.
var saysThrottled = regexp.MustCompile(`(?i)\b429\b|throttl|too many requests|rate ?(limit )?exceeded|request ?limit ?exceeded`)

func checkThrottled(ctx context.Context, t *trial) error {
	calls, err := t.instanceCalls(ctx)
	if err != nil {
		return err
	}
	return t.faulty(ctx, FaultThrottle, func() {
		for _, c := range calls {
			err := c.call(ctx)
			if errors.Is(err, errAnswered) {
				continue
			}
			if err == nil || !provider.IsThrottled(err) && !saysThrottled.MatchString(err.Error()) {
				t.sawf("%s when the cloud throttles: %v", c.name, err)
			}
		}
	})
}
