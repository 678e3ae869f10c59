package cloud

import (
	"context"
	"errors"
	"regexp"

	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/provider"
)

// saysThrottled finds the words by which clouds refuse a call over quota. Plugins written before this project return
// plain errors, so that their text is all there is.
var saysThrottled = regexp.MustCompile(`(?i)\b429\b|too many requests|throttl|rate[ _]?exceeded|rate[ _-]?limit|request limit exceeded|quota exceeded for quota metric`)

// classify wraps a plain error in the type by which controllers decide. What has a type already, or is one of upstream's
// sentinels, is returned as it is: plugins and upstream's own code compare those with ==.
func classify(err error) error {
	var throttled *provider.ThrottledError
	var retry *cloudproviderapi.RetryError
	switch {
	case err == nil,
		errors.Is(err, cloudprovider.InstanceNotFound),
		errors.Is(err, cloudprovider.NotImplemented),
		errors.Is(err, cloudprovider.ImplementedElsewhere),
		errors.Is(err, context.Canceled),
		errors.Is(err, context.DeadlineExceeded),
		provider.IsTerminal(err),
		errors.As(err, &retry),
		errors.As(err, &throttled):
		return err
	case saysThrottled.MatchString(err.Error()):
		return &provider.ThrottledError{Err: err}
	default:
		return err
	}
}

// The outcomes of a call, as the label of a metric.
const (
	outcomeOK             = "ok"
	outcomeNotFound       = "not_found"
	outcomeNotImplemented = "not_implemented"
	outcomeThrottled      = "throttled"
	outcomeTerminal       = "terminal"
	outcomeTimeout        = "timeout"
	outcomeCanceled       = "canceled"
	outcomeError          = "error"
)

// outcomeOf names what became of a call whose error has been classified.
func outcomeOf(err error) string {
	var throttled *provider.ThrottledError
	switch {
	case err == nil:
		return outcomeOK
	case errors.Is(err, cloudprovider.InstanceNotFound):
		return outcomeNotFound
	case errors.Is(err, cloudprovider.NotImplemented), errors.Is(err, cloudprovider.ImplementedElsewhere):
		return outcomeNotImplemented
	case errors.As(err, &throttled):
		return outcomeThrottled
	case provider.IsTerminal(err):
		return outcomeTerminal
	case errors.Is(err, context.DeadlineExceeded):
		return outcomeTimeout
	case errors.Is(err, context.Canceled):
		return outcomeCanceled
	default:
		return outcomeError
	}
}
