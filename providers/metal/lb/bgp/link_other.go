//go:build !linux

package bgp

import "errors"

// errNoLink says that links are not looked at on this system.
var errNoLink = errors.New("peers by interface are for Linux")

func lookAtLink(string) (Link, error) { return Link{}, errNoLink }

func greetOn(string) error { return errNoLink }
