package instances

import "time"

const (
	// restFactor is for how many times the time that the last listing took the cloud rests before the next, up to maxRest.
	restFactor = 3
	// maxRest bounds the pause between listings. Listings that take longer than a third of it cost a cluster that grows more calls for each
	// node that joins: the pause is the same, and there are more pages.
	maxRest = 5 * time.Second
	// quiet is how long no caller must have come to wait for a listing so it may begin before the rest is over: a longer wait would
	// not be shared.
	quiet = 100 * time.Millisecond
	// maxRestDebt bounds by how much listings together may have begun before their rest was over, until they have rested longer than they had to
	// for as long. It is little beside the rest of a large cloud, each listing of which has many pages.
	maxRestDebt = time.Second
)

// pace says when the next listing may begin: callers that come in a burst share one, and the cloud rests. Nodes that join for a while, and of
// which each takes a listing from after it appeared, cost a quarter of the cloud's time, and somewhat more at the end of a burst.
// See ADR 10.
type pace struct {
	// window is how long the first who waits for a listing waits for others.
	window time.Duration

	began, ended time.Time
	took         time.Duration
	// restDebt is how much rest the listings up to the last one lacked.
	restDebt time.Duration
}

// due returns when a listing may begin for which the first waits since a time, and the last since another.
func (p *pace) due(first, last time.Time) time.Time {
	due := p.rested()
	if early := last.Add(quiet); early.Before(due) && p.restDebt+due.Sub(early) <= maxRestDebt {
		due = early
	}
	if shared := first.Add(p.window); shared.After(due) {
		due = shared
	}
	return due
}

// rested returns when the cloud has rested for long enough from the last listing.
func (p *pace) rested() time.Time {
	return p.ended.Add(min(restFactor*p.took, maxRest))
}

// begin notes that a listing begins.
func (p *pace) begin(now time.Time) {
	if !p.ended.IsZero() {
		p.restDebt = max(0, p.restDebt+p.rested().Sub(now))
	}
	p.began = now
}

// end notes that a listing has ended, and returns how long it took.
func (p *pace) end(now time.Time) time.Duration {
	p.ended, p.took = now, now.Sub(p.began)
	return p.took
}
