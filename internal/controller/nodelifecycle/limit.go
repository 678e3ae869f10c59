package nodelifecycle

import (
	"fmt"
	"strconv"
	"strings"
)

// Set parses a share such as "25%" or a number such as "10". It makes a Limit the value of a flag.
func (l *Limit) Set(text string) error {
	digits, share := strings.CutSuffix(text, "%")
	number, err := strconv.Atoi(digits)
	switch {
	case err != nil || number < 0:
		return fmt.Errorf("%q is neither a share of the nodes such as 25%% nor a number of nodes such as 10", text)
	case share && number > 100:
		return fmt.Errorf("%q is more than all nodes: 100%% switches the limit off", text)
	case share:
		*l = Limit{Percent: number}
	default:
		*l = Limit{Count: number}
	}
	return nil
}

// String returns the limit in the form that Set parses.
func (l Limit) String() string {
	if l.Percent > 0 {
		return strconv.Itoa(l.Percent) + "%"
	}
	return strconv.Itoa(l.Count)
}

// Type names the type in a command's help.
func (l *Limit) Type() string { return "limit" }
