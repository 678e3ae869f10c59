package conformance

import (
	"context"
	"slices"

	"github.com/mooring-ccm/mooring/provider"
)

//go:generate go run ../../dev/docgen/rules --file ../../docs/reference/conformance.md

// Rule is one thing that holds for a provider that is right.
type Rule struct {
	// ID names the rule: what it is about, then what it asks, such as "instances-stopped-exist". It never changes.
	ID string
	// Text is the rule in a sentence.
	Text string
	// Source is where the interface's documentation says so.
	Source Source
	// Needs are what the subject must offer for the rule to be tried.
	Needs []Need

	// check tries the rule. It records in the trial what it saw that breaks the rule; an error breaks it too, unless its type says
	// that the rule could not be tried.
	check func(ctx context.Context, t *trial) error
}

// Source is a place in the documentation of an interface.
type Source struct {
	// Of is the name of what is documented, "cloudprovider.Routes.ListRoutes".
	Of string
	// Quote is what the documentation says, word for word.
	Quote string
}

// String returns the source as it stands in reports.
func (s Source) String() string { return s.Of + `: "` + s.Quote + `"` }

// Need is something that a subject offers or does not.
type Need string

// What rules may need: interfaces, capabilities, instances and hooks.
const (
	NeedInstancesV2       Need = "InstancesV2"
	NeedInstances         Need = "Instances"
	NeedZones             Need = "Zones"
	NeedLoadBalancer      Need = "LoadBalancer"
	NeedRoutes            Need = "Routes"
	NeedListInstances     Need = "ListInstances"
	NeedWatchInstances    Need = "WatchInstances"
	NeedListLoadBalancers Need = "ListLoadBalancers"
	NeedBalancerWrites    Need = "LoadBalancerWrites"
	NeedReadsAtOnce       Need = "Limits.InFlight"
	NeedReplaceRoute      Need = "ReplaceRoute"
	NeedChangeRoutes      Need = "ChangeRoutes"
	NeedChangeTargets     Need = "ChangeTargets"
	NeedNodeGroups        Need = "NodeGroups"
	NeedNodeGroup         Need = "a node group"
	NeedInstance          Need = "an instance"
	NeedTwoInstances      Need = "two instances"
	NeedCreate            Need = "CreateInstance"
	NeedStop              Need = "StopInstance"
	NeedDelete            Need = "DeleteInstance"
	NeedOtherCluster      Need = "OtherCluster"
	NeedFault             Need = "InjectFault"
)

// missing returns why a subject does not offer what a rule needs, empty if it does.
func missing(subject *Subject, needs []Need) string {
	for _, need := range needs {
		if reason := lacks(subject, need); reason != "" {
			return reason
		}
	}
	return ""
}

func lacks(subject *Subject, need Need) string {
	const (
		notOffered  = "the provider does not offer "
		notDeclared = "the provider's capabilities have no "
		noHook      = "only a provider's own test can give the hook that this needs: "
	)
	var offered bool
	reason := notOffered
	switch need {
	case NeedInstancesV2:
		_, offered = subject.Cloud.InstancesV2()
	case NeedInstances:
		_, offered = subject.Cloud.Instances()
	case NeedZones:
		_, offered = subject.Cloud.Zones()
	case NeedLoadBalancer:
		_, offered = subject.Cloud.LoadBalancer()
	case NeedRoutes:
		_, offered = subject.Cloud.Routes()
	case NeedListInstances, NeedWatchInstances, NeedListLoadBalancers, NeedReplaceRoute, NeedBalancerWrites, NeedReadsAtOnce,
		NeedChangeRoutes, NeedChangeTargets, NeedNodeGroups:
		reason, offered = notDeclared, declares(provider.CapabilitiesOf(subject.Cloud), need)
	case NeedNodeGroup:
		reason, offered = "the factory does not say which group may be changed: ", subject.NodeGroup != ""
	case NeedInstance:
		reason, offered = "the factory creates no instance and names none: ", canHave(subject, 1)
	case NeedTwoInstances:
		reason, offered = "the factory creates no instances and names fewer than ", canHave(subject, 2)
	default:
		reason, offered = noHook, hooked(subject.Hooks, need)
	}
	if offered {
		return ""
	}
	return reason + string(need)
}

func canHave(subject *Subject, instances int) bool {
	return canMake(subject) || len(subject.Instances) >= instances
}

// canMake reports whether instances can be created. Without a hook that deletes them they would be left.
func canMake(subject *Subject) bool {
	return subject.Hooks.CreateInstance != nil && subject.Hooks.DeleteInstance != nil
}

func declares(capabilities provider.Capabilities, need Need) bool {
	switch need {
	case NeedListInstances:
		return capabilities.ListInstances != nil
	case NeedWatchInstances:
		return capabilities.WatchInstances != nil
	case NeedListLoadBalancers:
		return capabilities.ListLoadBalancers != nil
	case NeedReplaceRoute:
		return capabilities.ReplaceRoute != nil
	case NeedChangeRoutes:
		return capabilities.ChangeRoutes != nil
	case NeedChangeTargets:
		return capabilities.ChangeTargets != nil
	case NeedNodeGroups:
		return capabilities.NodeGroups != nil
	case NeedReadsAtOnce:
		return capabilities.Limits.InFlight > 1
	default:
		return need == NeedBalancerWrites && capabilities.LoadBalancerWrites > 1
	}
}

func hooked(hooks Hooks, need Need) bool {
	switch need {
	case NeedCreate:
		return hooks.CreateInstance != nil && hooks.DeleteInstance != nil
	case NeedStop:
		return hooks.StopInstance != nil
	case NeedDelete:
		return hooks.DeleteInstance != nil
	case NeedOtherCluster:
		return hooks.OtherCluster != nil
	default:
		return need == NeedFault && hooks.InjectFault != nil
	}
}

// Rules returns all rules, in the order in which they run.
func Rules() []Rule {
	return slices.Concat(
		providerRules(), instanceRules(), identityRules(), instanceFailureRules(), legacyRules(), legacyHarmonyRules(), listRules(), watchRules(),
		balancerRules(), balancerTargetRules(), balancerShapeRules(), balancerOwnerRules(), balancerServiceRules(), balancerChangeRules(),
		balancerFailureRules(), balancerEndingRules(),
		routeRules(), routeSharingRules(), routeChangeRules(), routeFailureRules(),
		nodeGroupRules(), nodeGroupDeletionRules(), nodeGroupFailureRules(),
	)
}
