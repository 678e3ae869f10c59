package power

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// bound is how many controllers are asked at once. Those whose last reading failed take half of it at most: a failure often lasts as
// long as a reading may, and a network that is cut leaves many of them.
type bound struct{ all, failing *semaphore.Weighted }

func newBound(concurrency int) bound {
	return bound{semaphore.NewWeighted(int64(concurrency)), semaphore.NewWeighted(int64(max(1, concurrency/2)))}
}

// acquire waits until a controller may be asked; release is called after it was. It fails with the error of ctx.
func (b bound) acquire(ctx context.Context, failing bool) (release func(), err error) {
	if !failing {
		return func() { b.all.Release(1) }, b.all.Acquire(ctx, 1)
	}
	if err := b.failing.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	if err := b.all.Acquire(ctx, 1); err != nil {
		b.failing.Release(1)
		return nil, err
	}
	return func() {
		b.all.Release(1)
		b.failing.Release(1)
	}, nil
}
