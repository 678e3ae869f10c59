package sim

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// classify gives an error of the client the type by which callers decide:
//
//   - 429 is a provider.ThrottledError with the time that the cloud asks to wait;
//   - 400, 401 and 403 are a provider.TerminalError: repeating the call as it is cannot help. A target that the cloud does
//     not know is not terminal, since instances come and go;
//   - all others, answers that are not valid included, stay as they are and may be repeated.
//
// That something does not exist is not decided here: see isNotFound.
func classify(err error) error {
	var answer *api.Error
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.Status {
	case http.StatusTooManyRequests:
		return &provider.ThrottledError{RetryAfter: answer.RetryAfter, Err: err}
	case http.StatusBadRequest:
		if onlyTargets(answer.Fields) {
			return err
		}
		return &provider.TerminalError{Err: err}
	case http.StatusUnauthorized, http.StatusForbidden:
		return &provider.TerminalError{Err: err}
	default:
		return err
	}
}

func onlyTargets(fields []api.FieldError) bool {
	aboutTarget := func(f api.FieldError) bool {
		return strings.HasPrefix(f.Field, "targets[") || strings.HasPrefix(f.Field, "add[") ||
			f.Field == "targetInstance" || f.Field == "targetName"
	}
	return len(fields) > 0 && !slices.ContainsFunc(fields, func(f api.FieldError) bool { return !aboutTarget(f) })
}

// isNotFound reports whether the cloud itself said that what was asked for does not exist. A 404 of something between here
// and the cloud, or for a path that the cloud does not know, says nothing about that.
func isNotFound(err error) bool { return api.HasCode(err, api.CodeNotFound) }

// classifyInstance is classify for a call that asks for one instance.
func classifyInstance(err error) error {
	if isNotFound(err) {
		return fmt.Errorf("%w: %w", provider.ErrInstanceNotFound, err)
	}
	return classify(err)
}
