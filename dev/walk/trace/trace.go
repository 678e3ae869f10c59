// Package trace records which functions a goroutine enters. The command walk has each function of the core call it.
package trace

import (
	"bytes"
	"runtime"
	"sync"
)

// Entry is one function that was entered.
type Entry struct {
	// Goroutine identifies the goroutine, File is the file's path in the module, and Function its name, with the receiver if it is a method.
	Goroutine, File, Function string
}

var (
	mu       sync.Mutex
	on       bool
	recorded []Entry
)

// Start forgets what was recorded, and records from now on.
func Start() {
	mu.Lock()
	defer mu.Unlock()
	on, recorded = true, nil
}

// Stop records no more, and returns what was recorded, in order.
func Stop() []Entry {
	mu.Lock()
	defer mu.Unlock()
	on = false
	return recorded
}

// Enter records that the calling goroutine enters a function.
func Enter(file, function string) {
	mu.Lock()
	defer mu.Unlock()
	if on {
		recorded = append(recorded, Entry{Goroutine: goroutine(), File: file, Function: function})
	}
}

// goroutine returns the number of the calling goroutine, which only its stack shows.
func goroutine() string {
	stack := make([]byte, 64)
	fields := bytes.Fields(stack[:runtime.Stack(stack, false)]) // "goroutine 7 [running]:"
	return string(fields[1])
}
