// Package kit has what every controller needs once: a work queue that ends, the frame around a controller-runtime controller, a way
// into its queue from elsewhere, the debouncing of changes, the pauses after failures, the patch of a condition, the outcomes of writes
// and the order of resource versions, and the limits of logs and events while something goes on failing.
package kit
