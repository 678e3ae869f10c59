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

// resetTypes are the resets by which a change is made, the better ones first (DSP0268, ResetType). Firmware without
// GracefulShutdown often has the power button, which an operating system takes for the same.
var resetTypes = map[change][]string{
	byForce: {forceOff}, softly: {"GracefulShutdown", "PushPowerButton"}, turningOn: {"On", "ForceOn"},
}

// change resets the system (DSP0266, 7.10; DSP0268, ComputerSystem.Reset). It is read just before, and its ETag makes the reset
// depend on that nothing has changed since. Where that is refused, the system is read once more and reset without: it may have changed
// meanwhile, and some services refuse every condition on the URI of an action, or compare weak ETags as RFC 9110 13.1.1 says, by which
// none ever matches.
func (r *redfish) change(ctx context.Context, what change, systemUUID string) error {
	err := r.reset(ctx, what, systemUUID, true)
	var answered *statusError
	if errors.As(err, &answered) && answered.code == http.StatusPreconditionFailed {
		err = r.reset(ctx, what, systemUUID, false)
	}
	if err != nil {
		return message.Bound(fmt.Errorf("redfish service %s: %w", r.config.Endpoint, err), maxError)
	}
	return nil
}

func (r *redfish) reset(ctx context.Context, what change, systemUUID string, conditional bool) error {
	if r.system == "" {
		return errors.New("the system has not been found yet") // it is read before
	}
	found, err := r.getSystem(ctx, r.system)
	if err != nil {
		return err
	}
	action := found.Actions.Reset
	reset := resetTypes[what][0]
	if i := slices.IndexFunc(resetTypes[what], func(known string) bool { return slices.Contains(action.Types, known) }); i >= 0 {
		reset = resetTypes[what][i]
	}
	switch {
	case !newSystemUUID(found.UUID).Is(systemUUID):
		return ErrUnverified
	case action.Target == "":
		return fmt.Errorf("the system has no action ComputerSystem.Reset: %w", what.impossible())
	case len(action.Types) > 0 && !slices.Contains(action.Types, reset):
		return fmt.Errorf("the system takes only the resets %s: %w", strings.Join(action.Types, ", "), what.impossible())
	}
	if !conditional {
		found.ETag = ""
	}
	_, err = r.call(ctx, http.MethodPost, action.Target, map[string]string{"ResetType": reset}, nil, found.ETag)
	if err != nil {
		return fmt.Errorf("resetting the system by %s: %w", reset, err)
	}
	return nil
}
