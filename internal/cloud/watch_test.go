package cloud

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/internal/cloud/guard"
	"github.com/mooring-ccm/mooring/provider"
)

// watching is a plugin whose watch a test decides.
type watching struct {
	plugin
	watch provider.WatchInstancesFunc
}

func (p *watching) Capabilities() provider.Capabilities {
	return provider.Capabilities{WatchInstances: p.watch}
}

func decorateWatch(watch provider.WatchInstancesFunc) cloudprovider.Interface {
	found := func(context.Context, *v1.Node) (*cloudprovider.InstanceMetadata, error) { return nil, nil }
	return Decorate(&watching{plugin: plugin{metadata: found}, watch: watch}, Options{MaxInFlight: 1, CallTimeout: time.Minute})
}

func TestAWatchLivesLongAndHoldsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := decorateWatch(func(ctx context.Context, yield func(provider.InstanceEvent) error) error {
			if err := yield(provider.InstanceEvent{Kind: provider.InstancesCurrent}); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- provider.CapabilitiesOf(cloud).WatchInstances(ctx, func(provider.InstanceEvent) error { return nil })
		}()
		time.Sleep(time.Hour)
		if _, err := metadataOf(t, cloud, t.Context()); err != nil {
			t.Errorf("a call beside the watch: %v", err)
		}
		select {
		case err := <-ended:
			t.Errorf("the watch ended: %v", err)
		default:
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want the context's", err)
		}
	})
}

func TestAWatchThatDoesNotBegin(t *testing.T) {
	ignore := func(provider.InstanceEvent) error { return nil }
	t.Run("meets the deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			come := make(chan struct{})
			cloud := decorateWatch(func(_ context.Context, yield func(provider.InstanceEvent) error) error {
				<-come // whatever its context says
				return yield(provider.InstanceEvent{Kind: provider.InstancesCurrent})
			})
			start := time.Now()
			err := provider.CapabilitiesOf(cloud).WatchInstances(t.Context(), func(provider.InstanceEvent) error {
				t.Error("an event of a watch that was given up")
				return nil
			})
			if !errors.Is(err, classify.ErrDeadline) || time.Since(start) != time.Minute+guard.Grace {
				t.Errorf("error %v after %s, want the deadline after a minute", err, time.Since(start))
			}
			close(come)
		})
	})
	t.Run("is classified", func(t *testing.T) {
		cloud := decorateWatch(func(context.Context, func(provider.InstanceEvent) error) error {
			return errors.New("status 429: too many requests, retry after 7s")
		})
		err := provider.CapabilitiesOf(cloud).WatchInstances(t.Context(), ignore)
		if after, ok := provider.RetryAfter(err); !ok || after != 7*time.Second {
			t.Errorf("error %v, want one that asks for 7s", err)
		}
	})
	t.Run("by its caller's will", func(t *testing.T) {
		cloud := decorateWatch(func(_ context.Context, yield func(provider.InstanceEvent) error) error {
			_ = yield(provider.InstanceEvent{Kind: provider.InstancesCurrent})
			return errors.New("something else")
		})
		enough := errors.New("enough")
		err := provider.CapabilitiesOf(cloud).WatchInstances(t.Context(), func(provider.InstanceEvent) error { return enough })
		if err != enough {
			t.Errorf("error %v, want the caller's as it is", err)
		}
	})
}
