package power

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/mooring-ccm/mooring/internal/message"
)

// forceOff is the reset that takes the power away without asking the operating system (DSP0268, ResetType).
const forceOff = "ForceOff"

// powerOff resets the system by ForceOff (DSP0266, 7.10; DSP0268, ComputerSystem.Reset). It is read just before, and its ETag makes
// the reset depend on that nothing has changed since; a system that changes meanwhile is read once more.
func (r *redfish) powerOff(ctx context.Context, systemUUID string) error {
	err := r.reset(ctx, systemUUID)
	var answered *statusError
	if errors.As(err, &answered) && answered.code == http.StatusPreconditionFailed {
		err = r.reset(ctx, systemUUID)
	}
	if err != nil {
		return message.Bound(fmt.Errorf("redfish service %s: %w", r.config.Endpoint, err), maxError)
	}
	return nil
}

func (r *redfish) reset(ctx context.Context, systemUUID string) error {
	if r.system == "" {
		return errors.New("the system has not been found yet") // it is read before
	}
	found, err := r.getSystem(ctx, r.system)
	if err != nil {
		return err
	}
	action := found.Actions.Reset
	switch {
	case !newSystemUUID(found.UUID).Is(systemUUID):
		return ErrUnverified
	case action.Target == "":
		return fmt.Errorf("the system has no action ComputerSystem.Reset: %w", ErrCannotTurnOff)
	case len(action.Types) > 0 && !slices.Contains(action.Types, forceOff):
		return fmt.Errorf("the system takes only the resets %s: %w", strings.Join(action.Types, ", "), ErrCannotTurnOff)
	}
	_, err = r.call(ctx, http.MethodPost, action.Target, map[string]string{"ResetType": forceOff}, nil, found.ETag)
	if err != nil {
		return fmt.Errorf("resetting the system: %w", err)
	}
	return nil
}
