// Package election holds the Lease that makes one replica of the manager the leader.
//
// client-go's elector polls: a standby asks for the lease every retry period (2 s by default, with jitter more than 4 s), so
// a lease that was given up lies idle for seconds. Lock is the elector's lock, decorated: while another replica holds the
// lease, Get does not return until the lease is free, because it was released, deleted, or not renewed for its duration. It
// notices that by a watch on the one Lease, and falls back to asking once per retry period where it may not watch.
//
// A lease is free, too, when the kubelet has reported that the container has terminated in which its holder ran. The holder says by an
// annotation of the Lease in which Pod that is, and by its termination message in which container.
//
// Client-go still decides whether a lease is expired: it is when this process has seen no change of it for the duration written
// in it, measured by this process's monotonic clock, so clocks of different machines need not agree. Two standbys that both
// see a free lease both write it, and the API server lets the resource version of only one of them win.
//
// The elector of a leader that cannot renew its lease gives up after its renew deadline, counted from when it tries: a process
// that was stopped beyond the lease's duration and goes on would act for that long beside a new leader. Lock therefore says at
// any time whether this replica may act (Lost), and calls OnLost when it no longer may.
package election
