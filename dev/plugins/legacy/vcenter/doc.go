// Package vcenter runs vcsim, the vCenter simulator of VMware's own library, as a process of its own, with an HTTPS endpoint before it that
// writes down what the plugin calls.
package vcenter
