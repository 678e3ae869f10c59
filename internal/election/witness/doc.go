// Package witness releases the lease of a manager whose process has died without being able to: by SIGKILL, for want of memory, by a crash.
// Without it, the next leader waits until the lease has expired.
//
// The witness is a small child process of the leader, this program started once more. It waits until the kernel says that its parent, with
// all its threads, is gone; a parent that is stopped or cut off is not. Then it writes the Lease as client-go's elector does on an orderly
// end, but only if the parent's identity still holds it, and ends. It never takes or renews a lease.
//
// A process that is gone sends no request any more, but what it has sent may still take effect. The parent therefore leaves in memory that both
// share how many of its writes the cloud has not answered. If there are any, the lease is left to expire. All else that it sent has
// terminationGrace to take effect.
//
// See ADR 88.
package witness
