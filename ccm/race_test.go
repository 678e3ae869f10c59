//go:build race

package ccm_test

// raceFlag builds programs like the tests that run them, so what they share is compiled once.
const raceFlag = "-race"
