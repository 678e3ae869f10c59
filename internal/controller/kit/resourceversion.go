package kit

import "k8s.io/apimachinery/pkg/util/resourceversion"

// Older reports whether one resource version of an object precedes another: whether a copy from the cache is older than what a write
// returned. A version that is empty, or that cannot be compared, is not older.
func Older(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}
