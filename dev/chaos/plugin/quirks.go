package plugin

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/chaos/misbehavior"
	"github.com/mooring-ccm/mooring/dev/faults/pluginfault"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim"
)

const (
	// deafPause is how often a call that ignores its context looks whether it may go on.
	deafPause = 50 * time.Millisecond
	// askAgainAfter is when a plugin wants to be asked again for a load balancer that takes its time.
	askAgainAfter = time.Second
	// badType is a machine type that no label can have.
	badType = "m5 large (2 CPUs)"
)

// allQuirks are the quirks in the order in which they apply to a call.
func (p *plugin) allQuirks() []quirk {
	ensure, remove, get := []string{"EnsureLoadBalancer"}, []string{"EnsureLoadBalancerDeleted"}, []string{"GetLoadBalancer"}
	writes := []string{"EnsureLoadBalancer", "UpdateLoadBalancer", "ChangeTargets"}
	exists, metadata, described := []string{"InstanceExists"}, []string{"InstanceMetadata"}, []string{"InstanceMetadata", page}
	return []quirk{
		{misbehavior.Deaf, nil, pluginfault.Before(hang)},
		{misbehavior.Words, nil, pluginfault.Fail(errors.New("googleapi: Error 403: Rate Limit Exceeded, rateLimitExceeded"))},
		{misbehavior.OtherNotFound, append(remove, get...), pluginfault.Fail(
			fmt.Errorf("read the cloud's password: %w", apierrors.NewNotFound(corev1.Resource("secrets"), "cloud")))},
		{"", writes, pluginfault.Fault{Before: scribble}},
		{misbehavior.AskAgain, ensure, pluginfault.Fail(cloudproviderapi.NewRetryError("the load balancer is being made", askAgainAfter))},
		{misbehavior.EnsureFails, ensure, pluginfault.Fail(errors.New("an annotation of the Service is wrong"))},
		{"", writes, pluginfault.Fault{Before: refuseForeign}},
		{misbehavior.GoneUndeletable, remove, pluginfault.Fault{Before: p.refuseGone}},

		{misbehavior.OtherStatus, get, pluginfault.OtherIngress()},
		{misbehavior.NoBalancer, get, pluginfault.Answer(func(*corev1.Service, *corev1.LoadBalancerStatus) *corev1.LoadBalancerStatus { return nil })},
		{misbehavior.GoneByError, exists, pluginfault.After(goneByError)},
		{misbehavior.GoneIsStopped, []string{"InstanceShutdown"}, pluginfault.After(goneIsStopped)},
		{"", metadata, pluginfault.Answer(p.remember)},
		{misbehavior.AddressesTwice, described, pluginfault.AddressesTwice()},
		{misbehavior.NoIP, described, pluginfault.HostNamesOnly()},
		{misbehavior.BadType, described, pluginfault.Describe(func(m *cloudprovider.InstanceMetadata) { m.InstanceType = badType })},
		{misbehavior.SchemeOnly, described, pluginfault.Describe(func(m *cloudprovider.InstanceMetadata) { m.ProviderID = sim.ProviderID("") })},
		{misbehavior.Namesakes, []string{page}, pluginfault.Answer(addNamesakes)},
		{misbehavior.Terse, metadata, pluginfault.Answer(omitKnown)},
		{misbehavior.NoMetadata, metadata, pluginfault.Answer(func(*corev1.Node, *cloudprovider.InstanceMetadata) *cloudprovider.InstanceMetadata { return nil })},
		{misbehavior.Ghosts, metadata, pluginfault.After(p.ghost)},
		{misbehavior.Denies, exists, deny[bool](nil)},
		{misbehavior.Denies, metadata, deny[*cloudprovider.InstanceMetadata](cloudprovider.InstanceNotFound)},
		{misbehavior.Untyped, nil, pluginfault.Fault{After: untype}},
	}
}

// hang returns when the plugin no longer has the quirk Deaf.
func hang() error {
	for has(misbehavior.Deaf) {
		time.Sleep(deafPause)
	}
	return nil
}

// scribble writes into a Service as a plugin does that treats it as its own.
func scribble(_ context.Context, call pluginfault.Call, _ <-chan struct{}) error {
	service := call.Request.(*corev1.Service)
	if service.Annotations == nil {
		service.Annotations = map[string]string{}
	}
	service.Annotations["chaos.example.com/load-balancer-id"] = string(service.UID)
	return nil
}

// refuseForeign fails for one node that is not of this cloud.
func refuseForeign(_ context.Context, call pluginfault.Call, _ <-chan struct{}) error {
	for _, node := range call.Nodes {
		if !strings.HasPrefix(node.Spec.ProviderID, sim.ProviderID("")) {
			return fmt.Errorf("node %s has provider ID %q, which is not of this cloud", node.Name, node.Spec.ProviderID)
		}
	}
	return nil
}

// refuseGone fails for a load balancer that does not exist.
func (p *plugin) refuseGone(ctx context.Context, call pluginfault.Call, _ <-chan struct{}) error {
	if _, exists, err := p.balancers.GetLoadBalancer(ctx, call.Cluster, call.Request.(*corev1.Service)); err != nil || !exists {
		return errors.Join(err, errors.New("there is no load balancer of that name to delete"))
	}
	return nil
}

func goneByError(_ pluginfault.Call, exists bool, err error) (bool, error) {
	if err == nil && !exists {
		err = cloudprovider.InstanceNotFound
	}
	return exists, err
}

func goneIsStopped(_ pluginfault.Call, shutdown bool, err error) (bool, error) {
	if errors.Is(err, cloudprovider.InstanceNotFound) {
		return true, nil
	}
	return shutdown || err != nil, err
}

// remember keeps the metadata of an instance for ghost.
func (p *plugin) remember(node *corev1.Node, right *cloudprovider.InstanceMetadata) *cloudprovider.InstanceMetadata {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[node.Name] = *right
	return right
}

// ghost returns metadata of an instance that is gone.
func (p *plugin) ghost(call pluginfault.Call, right *cloudprovider.InstanceMetadata, err error) (*cloudprovider.InstanceMetadata, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, known := p.seen[call.Object]; known && errors.Is(err, cloudprovider.InstanceNotFound) {
		return &last, nil
	}
	return right, err
}

// addNamesakes lists each instance a second time with another provider ID.
func addNamesakes(_ provider.Instance, right []provider.Instance) (page []provider.Instance) {
	for _, instance := range right {
		page = append(page, instance)
		instance.ProviderID += "-namesake"
		page = append(page, instance)
	}
	return page
}

// omitKnown leaves out what the labels of the node show already.
func omitKnown(node *corev1.Node, right *cloudprovider.InstanceMetadata) *cloudprovider.InstanceMetadata {
	terse, labels := *right, node.Labels
	if labels[corev1.LabelInstanceTypeStable] != "" {
		terse.InstanceType = ""
	}
	if labels[corev1.LabelTopologyZone] != "" {
		terse.Zone = ""
	}
	if labels[corev1.LabelTopologyRegion] != "" {
		terse.Region = ""
	}
	terse.AdditionalLabels = maps.Clone(terse.AdditionalLabels)
	maps.DeleteFunc(terse.AdditionalLabels, func(name, _ string) bool { return labels[name] != "" })
	return &terse
}

// denied says whether the plugin denies the instance of a node: every third.
func denied(name string) bool {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name))
	return sum.Sum32()%3 == 0
}

// deny returns an error and nothing else for the instances that the plugin denies.
func deny[T any](denial error) pluginfault.Fault {
	return pluginfault.After(func(call pluginfault.Call, right T, err error) (nothing T, _ error) {
		if denied(call.Object) {
			return nothing, denial
		}
		return right, err
	})
}

// untype leaves nothing of an error but its text.
func untype(_ pluginfault.Call, answer any, err error) (any, error) {
	if err != nil {
		err = errors.New(err.Error())
	}
	return answer, err
}
