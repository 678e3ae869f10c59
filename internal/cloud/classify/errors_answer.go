package classify

import (
	"net/http"
	"slices"
	"time"
)

// answer is what an error says of the cloud's HTTP response. Where the SDK's error is in the chain, its fields say it; otherwise the
// text does, in the formats of the SDKs: plugins often return fmt.Errorf with %v.
type answer struct {
	statuses   []int    // HTTP statuses from 400 on; several if errors are joined
	typed      bool     // the statuses are from types
	codes      []string // error codes of the cloud's own, from types
	retryAfter time.Duration
	text       string
}

// maxReadText is how many bytes of a text are looked at for what they mean: an error may hold a whole answer of a proxy.
// What a cloud says comes first, and every byte is compared with dozens of words each time that the call fails.
const maxReadText = 2 << 10

// readable returns what is looked at of a text.
func readable(text string) string { return text[:min(len(text), maxReadText)] }

func answerOf(err error) answer {
	a := answer{text: readable(err.Error())}
	a.walk(err)
	a.typed = len(a.statuses) > 0
	if !a.typed {
		a.statuses = statusesIn(a.text)
	}
	return a
}

// refusalStatuses are the statuses with which clouds refuse a call for its quota: AWS says 400 and 503, Google 403, and
// OpenStack's older services 413.
var refusalStatuses = []int{
	http.StatusBadRequest, http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusServiceUnavailable,
}

// refused reports whether the cloud refused the call for a quota of calls, by its API's own code or status; a whole phrase decides where the
// status alone does not. A quota of something else, such as of machines, is not meant, nor is a limiter inside of the plugin or its SDK.
func (a answer) refused() bool {
	switch {
	case saysNotSent.MatchString(a.text):
		return false
	case slices.ContainsFunc(a.codes, isRefusalCode.MatchString):
		return true
	case len(a.codes) == 0 && saysRefusalCode.MatchString(a.text):
		return true
	case a.blamesObject():
		return false
	case slices.Contains(a.statuses, http.StatusTooManyRequests):
		return true
	case a.typed && len(a.codes) > 0: // the code is known, and is another one
		return false
	default:
		return slices.ContainsFunc(a.statuses, isRefusalStatus) && saysThrottled.MatchString(a.text)
	}
}

func isRefusalStatus(status int) bool { return slices.Contains(refusalStatuses, status) }

// wait returns how long the cloud asks to wait, zero if it does not say.
func (a answer) wait() time.Duration {
	if a.retryAfter > 0 {
		return bounded(a.retryAfter)
	}
	return retryAfterIn(a.text)
}

// blamesObject reports whether the cloud answered that the object, or one that it refers to, is being changed. Azure does so with
// status 429.
func (a answer) blamesObject() bool {
	return saysObjectBusy.MatchString(a.text) || slices.ContainsFunc(a.codes, saysObjectBusy.MatchString)
}
