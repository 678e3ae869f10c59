package cloud

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestOnWrites looks that whoever counts the writes hears of each before the plugin does, and of its end when the plugin has returned, not
// when it is given up. Reads do not count.
func TestOnWrites(t *testing.T) {
	var mu sync.Mutex
	var told []int
	options := Options{CallTimeout: time.Second, WriteTimeout: time.Minute, OnWrites: func(underway int) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, underway)
	}}
	inVirtualTime(t, options, func(t *testing.T, m *misbehaving) {
		require := func(when string, want ...int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(told, want) {
				t.Errorf("%s: told %v, want %v", when, told, want)
			}
		}
		_ = m.node(t.Context(), "node")
		require("after a read")

		m.set(func(context.Context) error {
			require("when the plugin is called", 1)
			panic("in the middle of a write")
		}, "panics")
		_ = m.ensure(t.Context(), "panics")
		require("after a write that panicked", 1, 0)

		m.set(slow(2*time.Minute, nil), "slow")
		_ = m.ensure(t.Context(), "slow")
		require("after a write was given up", 1, 0, 1)
		_ = m.ensure(t.Context(), "other")
		require("after another write", 1, 0, 1, 2, 1)
		time.Sleep(2 * time.Minute)
		require("when all have returned", 1, 0, 1, 2, 1, 0)
	})
}
