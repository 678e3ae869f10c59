// Package kit has what every controller needs once: a work queue that ends, the frame around a controller-runtime controller, a way
// into its queue from elsewhere, the limit of repeated events, and the pauses after failures.
package kit
