// Package ccm is the cloud controller manager: the command, its flags and start-up checks, leader election, serving, and the
// wiring of controllers. A vendor builds on it. The whole program of a vendor that has a plugin is
//
//	package main
//
//	import (
//		"github.com/mooring-ccm/mooring/ccm"
//		_ "example.com/mycloud" // its init registers the provider
//	)
//
//	func main() { ccm.Main() }
//
// Options say what else the program of a vendor is: WithProvider builds a provider whose constructor takes more than its cloud config,
// WithFlags and WithDefaults add flags and change defaults, WithController, ReplaceController, RemoveController and DisableController
// change the list of controllers. examples/vendor uses them.
//
// What happens in which order is in run.go; the life of the plugin, which decides when controllers may act, in lifecycle.go.
package ccm
