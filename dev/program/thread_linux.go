package program

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// OnThread calls something on a thread that nothing else runs on, before or after, and returns when it has returned: it may enter
// namespaces which this process is not in. It is never the main thread, which cannot end, and whose namespaces count as those of the
// process.
func OnThread(something func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			OnThread(something) // on another thread, because this one is taken until then
			runtime.UnlockOSThread()
			return
		}
		something() // and never unlocked: the thread ends with this goroutine
	}()
	<-done
}
