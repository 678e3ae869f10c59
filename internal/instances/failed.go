package instances

import (
	"sync"
	"time"
)

// errorHold is how long a failed listing answers for those who ask after it: an outage costs a call a second, however many
// nodes are waiting. What the cloud itself asks for, by a Retry-After, its client holds to.
const errorHold = time.Second

// recentError is the error of a listing that has just failed.
type recentError struct {
	mu    sync.Mutex
	until time.Time
	err   error
}

// get returns the error for as long as it answers for others, and nil after that.
func (r *recentError) get() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Until(r.until) <= 0 {
		return nil
	}
	return r.err
}

// note keeps an error, if it is one.
func (r *recentError) note(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until, r.err = time.Now().Add(errorHold), err
}
