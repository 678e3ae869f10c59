//go:build !linux

package program

import "runtime"

// OnThread calls something on a thread that nothing else runs on, before or after, and returns when it has returned.
func OnThread(something func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		something()
	}()
	<-done
}
