// Command mooring-ccm is Mooring's daemon, linked with the plugins of this benchmark.
package main

import (
	"github.com/mooring-ccm/mooring/ccm"
	_ "github.com/mooring-ccm/mooring/dev/bench/plugins"
)

func main() { ccm.Main() }
