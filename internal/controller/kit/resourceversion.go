package kit

import (
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// MaxCacheLag is how long after our own write to an object a copy of it that is older counts as one from before the write. After a
// restore of etcd from a backup the resource versions have gone back, and all copies are older forever.
const MaxCacheLag = time.Minute

// Older reports whether one resource version of an object precedes another: whether a copy from the cache is older than what a write
// returned. A version that is empty, or that cannot be compared, is not older.
func Older(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}
