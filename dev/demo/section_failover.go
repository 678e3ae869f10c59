package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/dev/demo/scenario"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

// failover stops the leader while a node joins.
func failover() section {
	var change handover
	return section{name: "failover", title: "Failover", steps: []step{
		{
			name: "lease", title: "the leader gets SIGTERM, and the standby holds the lease", deadline: stepDeadline,
			run: func(ctx context.Context, s *environment) (string, error) { return change.takeOver(ctx, s) },
		},
		{
			name: "node", title: "a node that joined meanwhile is initialized by the new leader", deadline: stepDeadline,
			run: func(ctx context.Context, s *environment) (string, error) { return change.newNode(ctx, s) },
		},
		{
			name: "route", title: "the new leader makes the route to its pods, too, and it is ready", deadline: stepDeadline,
			run: func(ctx context.Context, s *environment) (string, error) { return change.newRoute(ctx, s) },
		},
		{
			name: "state", title: fmt.Sprintf("%s kept its new machine type: the new leader knows what the old one knew", resizedNode),
			deadline: stepDeadline, run: checkState,
		},
		{
			name: "exit", title: "the old leader has ended in order", deadline: stepDeadline,
			run: func(ctx context.Context, s *environment) (string, error) { return change.oldLeader(ctx, s) },
		},
	}}
}

// handover is what the steps of the section know of each other.
type handover struct {
	// terminated is when the leader got SIGTERM.
	terminated time.Time
	// instance is a new one. Its node joins as soon as the old leader has released the lease, so the old leader cannot initialize it.
	instance *api.Instance
	joined   chan error
}

func (h *handover) takeOver(ctx context.Context, s *environment) (detail string, err error) {
	h.instance, err = s.client.CreateInstance(ctx, cloudsim.DefaultInstance(instanceCount+1))
	if err != nil {
		return "", err
	}
	old, next := s.replicas[firstReplica], s.replicas[secondReplica]
	holder := ""
	if err := s.observed.await(ctx, func(v view) error { holder = v.holder; return nil }); err != nil {
		return "", err
	}
	s.reportRole(old, scenario.Stopping)
	h.terminated = time.Now()
	if err := old.terminate(); err != nil {
		return "", err
	}
	err = s.observed.await(ctx, func(v view) error {
		if v.holder == holder {
			return errors.New("the old leader still holds the lease")
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	h.joined = make(chan error, 1)
	s.background.Go(func() { h.joined <- s.joinNode(s.life, *h.instance) })
	err = s.observed.await(ctx, func(v view) error {
		if v.holder == holder || v.holder == "" {
			return errNoHolder
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	took := time.Since(h.terminated)
	s.reportRole(next, scenario.Leader)
	return fmt.Sprintf("%s after SIGTERM, %s leads", seconds(took), next.Name()), nil
}

func (h *handover) newNode(ctx context.Context, s *environment) (string, error) {
	err := s.observed.await(ctx, func(v view) error { return asTheCloudSays(v.nodes[h.instance.Name], *h.instance) })
	took := time.Since(h.terminated)
	if err != nil {
		return "", errors.Join(err, s.warning(h.instance.Name))
	}
	if err := <-h.joined; err != nil {
		return "", err
	}
	return fmt.Sprintf("%s after SIGTERM, %s is initialized", seconds(took), h.instance.Name), nil
}

func (h *handover) newRoute(ctx context.Context, s *environment) (string, error) {
	podCIDR := ""
	err := s.awaitNode(ctx, h.instance.Name, func(node *corev1.Node) error {
		podCIDR = node.Spec.PodCIDR
		return errors.Join(wantsReady(node), networkAvailable(node))
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s after SIGTERM, to %s by way of %s", seconds(time.Since(h.terminated)), podCIDR, h.instance.Name), nil
}

// checkState looks at everything that the resized node has ever shown: a leader that begins with an old answer of the cloud
// would take it back for a moment.
func checkState(_ context.Context, s *environment) (string, error) {
	shown := s.observed.typesOf(resizedNode)
	if len(shown) != 2 || shown[1] != cloudsim.TypeLarge {
		return "", fmt.Errorf("%s showed %s, and the cloud changed it only once", resizedNode, strings.Join(shown, ", then "))
	}
	return strings.Join(shown, ", then "), nil
}

func (h *handover) oldLeader(ctx context.Context, s *environment) (string, error) {
	old := s.replicas[firstReplica]
	if err := old.ended(ctx); err != nil {
		return "", err
	}
	s.reportRole(old, scenario.Stopped)
	return fmt.Sprintf("%s, exit code 0", old.Name()), nil
}
