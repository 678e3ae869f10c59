// Package required names all missing options in one error.
package required

import (
	"errors"
	"fmt"
)

// Option is an option without which there is no work to be done.
type Option struct {
	// Name is the option's name.
	Name string
	// Missing says that it was not given.
	Missing bool
}

// Check returns an error that names all missing options of a component.
func Check(whose string, options ...Option) error {
	var missing []error
	for _, option := range options {
		if option.Missing {
			missing = append(missing, fmt.Errorf("the %s's option %s is required", whose, option.Name))
		}
	}
	return errors.Join(missing...)
}
