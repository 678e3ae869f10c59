// Command mooring is the tool for people: it shows Mooring at work, serves the simulated cloud, checks providers and builds
// cloud controller managers.
package main

import (
	"os"

	_ "github.com/mooring-ccm/mooring/providers/sim" // Registers the provider "sim".
	"github.com/mooring-ccm/mooring/tool"
)

func main() { os.Exit(run()) }

func run() int { return tool.Run(newRoot()) }
