package cloudsim

import (
	"maps"
	"slices"
	"time"
)

// collection is one kind of resource by key: as it is, and as lists show it. Lists may lag behind writes, a get never does.
// Values are never changed in place, so a list may share them.
type collection[T any] struct {
	live   map[string]T
	listed map[string]T
	// unlisted are the writes that lists do not show yet, oldest first.
	unlisted []write[T]
}

type write[T any] struct {
	at  time.Time
	key string
	// value is nil for a removal.
	value *T
}

// newCollection starts with what was loaded, which lists show at once.
func newCollection[T any](loaded map[string]T) collection[T] {
	return collection[T]{live: loaded, listed: maps.Clone(loaded)}
}

func (c *collection[T]) get(key string) (T, bool) {
	value, ok := c.live[key]
	return value, ok
}

func (c *collection[T]) put(now time.Time, key string, value T) {
	c.live[key] = value
	c.unlisted = append(c.unlisted, write[T]{now, key, &value})
}

func (c *collection[T]) remove(now time.Time, key string) {
	delete(c.live, key)
	c.unlisted = append(c.unlisted, write[T]{now, key, nil})
}

// list returns what a list shows that knows the writes up to a time, in the order of the keys.
func (c *collection[T]) list(upTo time.Time) []T {
	shown := 0
	for _, w := range c.unlisted {
		if w.at.After(upTo) {
			break
		}
		if w.value == nil {
			delete(c.listed, w.key)
		} else {
			c.listed[w.key] = *w.value
		}
		shown++
	}
	c.unlisted = slices.Delete(c.unlisted, 0, shown)
	values := make([]T, 0, len(c.listed))
	for _, key := range slices.Sorted(maps.Keys(c.listed)) {
		values = append(values, c.listed[key])
	}
	return values
}
