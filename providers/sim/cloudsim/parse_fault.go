package cloudsim

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// ParseFault reads a fault in the form of a command line, "operation=ListInstances,mode=status,status=503,count=3". Without
// count it hits one call. The error names everything that is wrong.
func ParseFault(text string) (api.Fault, error) {
	fault := api.Fault{Count: 1}
	var wrong []error
	number := func(name, value string) int {
		n, err := strconv.Atoi(value)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %q: must be a number", name, value))
		}
		return n
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "operation":
			fault.Operation = api.Operation(value)
		case "mode":
			fault.Mode = api.FaultMode(value)
		case "status":
			fault.Status = number(name, value)
		case "skip":
			fault.Skip = number(name, value)
		case "count":
			fault.Count = number(name, value)
		case "retry-after":
			d, err := time.ParseDuration(value)
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %q: must be a duration such as 5s", name, value))
			}
			fault.RetryAfter.Duration = d
		default:
			wrong = append(wrong, fmt.Errorf("%q: unknown; known are operation, mode, status, skip, count, retry-after", name))
		}
	}
	if len(wrong) == 0 {
		wrong = append(wrong, ValidateFault(fault).ToAggregate())
	}
	if err := errors.Join(wrong...); err != nil {
		return fault, fmt.Errorf("%q: %w", text, err)
	}
	return fault, nil
}
