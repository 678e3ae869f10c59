//go:build race

package conformance

import "runtime"

// raceDetector says that this program finds data races, and races how many it has found.
const raceDetector = true

func races() int { return runtime.RaceErrors() }
