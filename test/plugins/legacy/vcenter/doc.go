// Package vcenter runs vcsim, the vCenter simulator of VMware's own library, as a process of its own, with a door before it that
// writes down what the plugin calls.
package vcenter
