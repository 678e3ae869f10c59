//go:build !race

package ccm_test

const raceFlag = "-race=false"
