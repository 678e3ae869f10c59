// Command reference-ccm is the reference cloud controller manager with the plugins of this benchmark.
package main

import (
	_ "github.com/mooring-ccm/mooring/dev/bench/plugins"
	"github.com/mooring-ccm/mooring/dev/reference"
)

func main() { reference.Main() }
