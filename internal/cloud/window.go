package cloud

import "time"

const (
	// windowTime is for how long a read counts against the window.
	windowTime = time.Second
	// firstWindow is how many calls may be under way before the cloud has answered any.
	firstWindow = 8
	// windowIdle is after how long without a call the window is halved: what the cloud bore then says little about now.
	// RFC 2861 does the same after a round trip; a cloud's answer is not lost as a packet is, so this takes its time.
	windowIdle = 30 * time.Second
	// openPace is the least time between two calls where no quota is known. Calls that are let in all at once are refused all
	// at once; with this pause, and a longer one while the window is small, a refusal arrives before many have followed.
	openPace = time.Millisecond
)

// window bounds the calls under way. It begins small and grows by one with each answer, which doubles it in the time that a
// call takes: the slow start of TCP (RFC 5681, section 3.1).
type window struct {
	size, max int
	used      time.Time // when a call was let in last
}

func newWindow(most int) window { return window{size: min(firstWindow, most), max: most} }

// admitted notes that a call is let in, after the window has shrunk for the time that it was not used.
func (w window) admitted(now time.Time) window {
	if !w.used.IsZero() {
		for idle := now.Sub(w.used); idle >= windowIdle && w.size > firstWindow; idle -= windowIdle {
			w.size = max(w.size/2, firstWindow)
		}
	}
	w.used = now
	return w
}

// answered grows the window, if it is in use: one that is not shows nothing about what the cloud bears (RFC 7661). Paced says
// that calls wait for the pace that the window sets.
func (w window) answered(inFlight int, paced bool) window {
	if paced || 2*inFlight >= w.size {
		w.size = min(w.size+1, w.max)
	}
	return w
}

// pace is the least time between two calls.
func (w window) pace() time.Duration {
	return max(openPace, 2*firstWindow*openPace/time.Duration(max(w.size, 1)))
}
