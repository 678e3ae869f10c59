// Package priorityqueue has the work queue of the controllers: controller-runtime's priority queue, with a shutdown that always ends.
package priorityqueue
