package demo

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

// resizedNode is the node whose instance gets another machine type.
const resizedNode = "node-001"

// resize changes an instance in the cloud.
func resize() section {
	return section{name: "resize", title: "Resize", steps: []step{
		{
			name: "label", title: fmt.Sprintf("%s gets another machine type in the cloud, and the node's label says so", resizedNode),
			deadline: stepDeadline, run: resizeInstance,
		},
	}}
}

func resizeInstance(ctx context.Context, s *environment) (string, error) {
	instance, err := s.client.GetInstanceByName(ctx, resizedNode)
	if err != nil {
		return "", err
	}
	before, spec := instance.MachineType, instance.InstanceSpec
	spec.MachineType = cloudsim.TypeLarge
	if _, err := s.client.UpdateInstance(ctx, instance.ID, spec, instance.Generation); err != nil {
		return "", err
	}
	began := time.Now()
	err = s.observed.await(ctx, func(v view) error {
		if got := v.nodes[resizedNode].Labels[corev1.LabelInstanceTypeStable]; got != cloudsim.TypeLarge {
			return fmt.Errorf("the label of %s says %q", resizedNode, got)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s became %s after %s; the replicas refresh every %s", before, cloudsim.TypeLarge,
		seconds(time.Since(began)), statusFrequency), nil
}
