package cloud

import "sync"

// writesUnderWay counts the writes that the plugin is at, also those that nobody waits for any more.
type writesUnderWay struct {
	tell func(underway int)

	mu    sync.Mutex
	count int
}

// begin counts a call that the plugin is about to get, if it is a write.
func (w *writesUnderWay) begin(about subject) { w.add(about, 1) }

// end counts a call from which the plugin has returned.
func (w *writesUnderWay) end(about subject) { w.add(about, -1) }

func (w *writesUnderWay) add(about subject, change int) {
	if !about.write || w.tell == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count += change
	w.tell(w.count)
}
