package kit

import (
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// MaxCacheLag is how long after our own write to an object a copy of it that is older counts as one from before the write. After a
// restore of etcd from a backup the resource versions have gone back, and all copies are older forever.
const MaxCacheLag = time.Minute

// OwnWrite is our last write to an object: the resource version that it made, empty if the object was deleted, and when. The zero value is none.
type OwnWrite struct {
	Version string
	At      time.Time
}

// Hides reports whether a copy of the object with a resource version is from before the write, of up to MaxCacheLag ago.
func (w OwnWrite) Hides(version string, now time.Time) bool {
	return now.Sub(w.At) < MaxCacheLag && (w.Version == "" || Older(version, w.Version))
}

// Older reports whether one resource version of an object precedes another: whether a copy from the cache is older than what a write
// returned. A version that is empty, or that cannot be compared, is not older.
func Older(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}
