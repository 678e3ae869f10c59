package autoscaler

import (
	"context"
	"fmt"
	"math"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mooring-ccm/mooring/extensions/autoscaler/externalgrpc"
	"github.com/mooring-ccm/mooring/provider"
)

// NodeGroupIncreaseSize raises the target size of a group, once: a call whose answer is lost is not repeated here.
func (s *service) NodeGroupIncreaseSize(ctx context.Context, request *externalgrpc.NodeGroupIncreaseSizeRequest) (*externalgrpc.NodeGroupIncreaseSizeResponse, error) {
	id, delta := request.GetId(), int(request.GetDelta())
	if delta < 1 {
		return nil, invalid([]error{fmt.Errorf("delta is %d, and must be at least 1", delta)})
	}
	tried := fmt.Sprintf("increasing the node group %q by %d", id, delta)
	unlock, err := s.group(ctx, id)
	if err != nil {
		return nil, failure(tried, err)
	}
	defer unlock()
	known, err := s.observer.latest(ctx, id)
	if err != nil {
		return nil, failure(tried, err)
	}
	size, err := s.pending.size(ctx, known)
	if err != nil {
		return nil, failure(tried, err)
	}
	if size+delta > known.group.Max {
		return nil, status.Errorf(codes.FailedPrecondition, "%s: the target size is %d, and the maximum %d", tried, size, known.group.Max)
	}
	if !s.observer.raise(id, delta) {
		return nil, status.Errorf(codes.Aborted, "%s: another increase is under way", tried)
	}
	s.log.Info("Increasing a node group", "nodeGroup", id, "delta", delta, "targetSize", size+delta)
	err = s.observer.beside(ctx, tried, func(ctx context.Context) error {
		return s.groups.IncreaseNodeGroup(ctx, id, delta)
	}, func(err error) {
		s.observer.raised(id, err)
		if err != nil {
			s.log.Error(err, "Could not increase a node group; some instances may have been created", "nodeGroup", id, "delta", delta)
		}
	})
	if err != nil {
		return nil, failure(tried, err)
	}
	return &externalgrpc.NodeGroupIncreaseSizeResponse{}, nil
}

// NodeGroupDecreaseTargetSize takes back what is not there yet.
func (s *service) NodeGroupDecreaseTargetSize(ctx context.Context, request *externalgrpc.NodeGroupDecreaseTargetSizeRequest) (*externalgrpc.NodeGroupDecreaseTargetSizeResponse, error) {
	id, delta := request.GetId(), request.GetDelta()
	if delta >= 0 || delta == math.MinInt32 {
		return nil, invalid([]error{fmt.Errorf("delta is %d, and must be negative", delta)})
	}
	by := -int(delta)
	tried := fmt.Sprintf("decreasing the target size of the node group %q by %d", id, by)
	unlock, err := s.group(ctx, id)
	if err != nil {
		return nil, failure(tried, err)
	}
	defer unlock()
	s.log.Info("Decreasing the target size of a node group", "nodeGroup", id, "delta", delta)
	err = s.observer.beside(ctx, tried, func(ctx context.Context) error {
		return s.groups.DecreaseNodeGroupTarget(ctx, id, by)
	}, func(err error) {
		if err == nil {
			s.observer.lower(id, by)
			return
		}
		s.observer.lower(id, 0)
		s.log.Error(err, "Could not decrease the target size of a node group", "nodeGroup", id, "delta", delta)
	})
	if err != nil {
		return nil, failure(tried, err)
	}
	return &externalgrpc.NodeGroupDecreaseTargetSizeResponse{}, nil
}

// group takes the turn of a group that exists.
func (s *service) group(ctx context.Context, id string) (unlock func(), err error) {
	if err := s.observer.ensure(ctx); err != nil {
		return nil, err
	}
	if !s.observer.exists(id) {
		_, err := s.observer.get(id)
		return nil, err
	}
	return s.locks.lock(ctx, id)
}

// underWay is a call that the autoscaler waits for no longer.
type underWay struct{}

func (e *underWay) Error() string {
	return "the cloud did not answer in time and may still make the change; see the log and the size of the group"
}

// begunError is the end of a change that may have been made in part.
type begunError struct{ err error }

func (e *begunError) Error() string { return e.err.Error() }
func (e *begunError) Unwrap() error { return e.err }

// beside makes a call that changes something. It is not given up when the autoscaler does, because what half of a change leaves behind is of no
// of use, and no caller would learn of its end.
func (o *observer) beside(ctx context.Context, what string, do func(context.Context) error, end func(error)) error {
	var result error
	o.mu.Lock()
	one := o.start(what, do, func(err error) {
		result = err
		end(err)
	})
	o.mu.Unlock()
	select {
	case <-one.done:
		if result != nil {
			return &begunError{result}
		}
		return nil
	case <-ctx.Done():
		return &underWay{}
	}
}

// exists reports whether a group was listed.
func (o *observer) exists(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of[id] != nil
}

// groupOf returns the group of an instance as far as is known, empty if none is.
func (o *observer) groupOf(providerID string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range o.order {
		if slices.ContainsFunc(o.of[id].status.Instances, func(instance provider.NodeGroupInstance) bool { return instance.ProviderID == providerID }) {
			return id
		}
	}
	return ""
}
