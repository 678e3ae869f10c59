package rules

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mooring-ccm/mooring/dev/simulation/double"
)

// Account is what breaks no rule and is reported apart.
type Account struct {
	// Beside counts the calls of each method that entered while others of it were outstanding. They would end a plugin without a mutex.
	Beside map[string]int
	// Never are the objects that the reference, restarted at the end of the disturbances, does not bring to the state that is asked for. Rule 13
	// does not judge them.
	Never []string
}

// NewAccount returns the account of a draw.
func NewAccount(reference, mooring double.Record) Account {
	account := Account{Beside: map[string]int{}}
	for _, call := range mooring.Calls {
		if call.Beside > 0 {
			account.Beside[call.Method]++
		}
	}
	for _, open := range reference.Open {
		account.Never = append(account.Never, open.Object+": "+open.Text)
	}
	return account
}

// Lines returns the account as sentences.
func (a Account) Lines() (lines []string) {
	for _, method := range slices.Sorted(maps.Keys(a.Beside)) {
		lines = append(lines, fmt.Sprintf("apart: %d calls of %s entered beside one that was outstanding", a.Beside[method], method))
	}
	for _, open := range a.Never {
		lines = append(lines, "apart: the reference never settles "+open)
	}
	return lines
}
