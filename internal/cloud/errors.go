package cloud

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/provider"
)

// saysThrottled finds the words by which clouds refuse a call over quota. Plugins written before this project return
// plain errors, so that their text is all there is. A number is only a status where a status stands: IDs may contain 429. And a
// quota of something else than calls, such as of machines, is not meant.
var saysThrottled = regexp.MustCompile(`(?i)(?:^|: |status\W{0,3}|code\W{0,3}|http\S*\s|error\W{0,3}|response\W{0,3})429(?:$|[\s,;:)\]}"']|\.(?:\s|$))` +
	`|too many requests|throttl|rate[ _]?exceeded|requests? ?limit ?exceeded|quota exceeded for quota metric` +
	`|rate[ _-]?limit(?:ed\b|.{0,20}(?:exceed|reach|hit))|(?:exceed|reach|hit)\w*.{0,20}rate[ _-]?limit`)

// saysRetryAfter finds how long a cloud asks to wait: as the header, or in words. Without a unit it is seconds, as in the
// header (RFC 9110, section 10.2.3).
var saysRetryAfter = regexp.MustCompile(`(?i)(?:retry[ _-]?after|(?:re)?try(?: again)? (?:in|after))["']?\s*[:=]?\s*\[?["']?(\d+(?:\.\d+)?)\s*(ms|milli|m|h)?`)

// retryAfterIn returns how long a plain error asks to wait, zero if it does not say.
func retryAfterIn(text string) time.Duration {
	found := saysRetryAfter.FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	number, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		return 0
	}
	unit := map[string]time.Duration{"ms": time.Millisecond, "milli": time.Millisecond, "m": time.Minute, "h": time.Hour}
	return time.Duration(min(number*float64(cmp.Or(unit[strings.ToLower(found[2])], time.Second)), float64(longestHold)))
}

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
		return &provider.ThrottledError{RetryAfter: retryAfterIn(err.Error()), Err: err}
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
	outcomeRetry          = "retry"
	outcomeUnavailable    = "unavailable"
	outcomeTimeout        = "timeout"
	outcomeCanceled       = "canceled"
	outcomeError          = "error"
)

// outcomeOf names what became of a call whose error has been classified.
func outcomeOf(err error) string {
	var throttled *provider.ThrottledError
	var retry *cloudproviderapi.RetryError
	switch {
	case err == nil:
		return outcomeOK
	case errors.Is(err, cloudprovider.InstanceNotFound):
		return outcomeNotFound
	case errors.Is(err, cloudprovider.NotImplemented), errors.Is(err, cloudprovider.ImplementedElsewhere):
		return outcomeNotImplemented
	case errors.As(err, &throttled):
		return outcomeThrottled
	case errors.As(err, &retry):
		return outcomeRetry
	case errors.Is(err, ErrUnavailable):
		return outcomeUnavailable
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
