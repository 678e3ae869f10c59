// Package extensions names the controllers of the shipped program that are no part of the manager itself: nothing of it depends on them.
// They are registered by the public API of package ccm, as a vendor's own controllers are. A program may register all, or some by their own packages.
package extensions

import (
	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/extensions/autoscaler"
	"github.com/mooring-ccm/mooring/extensions/servingcertificate"
)

// All returns the options of ccm.Main that register all of them. Each is disabled unless --controllers names it.
func All() []ccm.Option {
	return []ccm.Option{
		ccm.WithController(autoscaler.Controller()),
		ccm.WithController(servingcertificate.Controller()),
	}
}
