package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/provider"
)

// maxText is how many bytes of what a service says an error shows.
const maxText = 400

// AnswerError is an answer of a service that is no success.
type AnswerError struct {
	// Method and URL are what was called; the URL is without its query.
	Method, URL string
	// Status is the HTTP status.
	Status int
	// Kind is the service's own name of what is wrong: the key of Nova's answer such as itemNotFound, the type of Neutron's such as
	// RouterNotFound, the faultcode of Octavia's. Empty if the answer is not a service's but, for example, a proxy's.
	Kind string
	// Text is what the service says.
	Text string
	// RetryAfter is how long the service asks to wait, zero if it does not.
	RetryAfter time.Duration
}

// Error says what was called and what came back.
func (e *AnswerError) Error() string {
	text := fmt.Sprintf("%s %s: %d", e.Method, e.URL, e.Status)
	if e.Kind != "" {
		text += " " + e.Kind
	}
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// Classify gives an error of a call the type by which callers decide:
//
//   - an answer becomes an *AnswerError;
//   - 429, 413 and 503 with Retry-After, are a provider.ThrottledError with the time that the service asks to wait;
//   - 400 and 403, quotas that are used up among them, are a provider.TerminalError: repeating the call as it is cannot help. So is
//     Neutron's 409 for a quota;
//   - 401 is not: the credentials may be others in a moment, see IsUnauthorized;
//   - all others, conflicts included, stay as they are and may be repeated.
//
// That something does not exist is not decided here: see IsMissing.
func Classify(err error) error {
	if err == nil {
		return nil
	}
	var renewal *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &renewal) && renewal.ErrReauth != nil {
		return fmt.Errorf("renewing the token: %w", refusal(Classify(renewal.ErrReauth)))
	}
	var after *gophercloud.ErrErrorAfterReauthentication
	if errors.As(err, &after) && after.ErrOriginal != nil {
		return Classify(after.ErrOriginal)
	}
	var raw gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &raw) {
		return err
	}
	answer := answerOf(raw)
	switch {
	case answer.Status == http.StatusTooManyRequests, answer.Status == http.StatusRequestEntityTooLarge,
		answer.Status == http.StatusServiceUnavailable && answer.RetryAfter > 0:
		return provider.Throttled(answer.RetryAfter, answer)
	case answer.Status == http.StatusBadRequest, answer.Status == http.StatusForbidden, answer.Kind == "OverQuota":
		return provider.Terminal(answer)
	default:
		return answer
	}
}

// StatusOf returns the HTTP status of the answer that an error is, or zero if the error is no answer.
func StatusOf(err error) int {
	var answer *AnswerError
	if errors.As(err, &answer) {
		return answer.Status
	}
	return 0
}

// errRefused marks credentials that are refused by another answer than 401.
var errRefused = errors.New("the credentials are refused")

// refusal marks an error of a login by which Keystone refuses the credentials. To one with an application credential that was deleted it
// says 404, which must never be taken for the answer about what was asked for.
func refusal(err error) error {
	if StatusOf(err) == http.StatusNotFound {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return err
}

// IsUnauthorized reports whether the credentials were refused.
func IsUnauthorized(err error) bool {
	return StatusOf(err) == http.StatusUnauthorized || errors.Is(err, errRefused)
}

// IsConflict reports whether the call came at the wrong moment: something else changes what it was about, or has changed it.
func IsConflict(err error) bool {
	return slices.Contains([]int{http.StatusConflict, http.StatusPreconditionFailed}, StatusOf(err)) && !provider.IsTerminal(err)
}

// Quota reports whether a quota of the project is used up, and of what, as the service names it: "Load Balancer" of Octavia, "floatingip" of
// Neutron, "instances" of Nova. The resource is empty where the service does not say.
func Quota(err error) (resource string, met bool) {
	var answer *AnswerError
	met = errors.As(err, &answer) && provider.IsTerminal(err) && (answer.Kind == "OverQuota" ||
		answer.Status == http.StatusForbidden && strings.Contains(strings.ToLower(answer.Text), "quota"))
	if !met {
		return "", false
	}
	text := answer.Text
	for _, before := range []string{"for resources: ", "for "} {
		if _, named, found := strings.Cut(text, before); found {
			named, _, _ = strings.Cut(named, ": ") // Nova goes on with numbers
			return strings.NewReplacer("[", "", "]", "", "'", "").Replace(strings.TrimSuffix(named, ".")), true
		}
	}
	return "", true
}

// IsQuota reports whether a quota of the project is used up.
func IsQuota(err error) bool {
	_, met := Quota(err)
	return met
}

// IsMissing reports whether the service itself says that what was asked for does not exist. A 404 of something between here and the
// service, or for a path that the service does not know, says nothing about that.
func IsMissing(err error) bool {
	var answer *AnswerError
	return errors.As(err, &answer) && answer.Status == http.StatusNotFound && answer.Kind != "" && !IsUnauthorized(err)
}

// answerOf reads the answer of any of the services.
func answerOf(raw gophercloud.ErrUnexpectedResponseCode) *AnswerError {
	answer := &AnswerError{Method: raw.Method, Status: raw.Actual, RetryAfter: retryAfter(raw.ResponseHeader)}
	if parsed, err := url.Parse(raw.URL); err == nil {
		parsed.RawQuery, parsed.User = "", nil
		answer.URL = message.Line(parsed.String(), maxText)
	}
	var text string
	answer.Kind, text = readBody(raw.Body)
	answer.Text = message.Line(text, maxText)
	return answer
}

// readBody returns the kind and the text of an error in the shapes of the services:
//
//   - Nova, Keystone: {"KIND": {"code": 404, "message": "..."}};
//   - Neutron: {"NeutronError": {"type": "KIND", "message": "..."}};
//   - Octavia: {"faultcode": "KIND", "faultstring": "..."}, and {"title": "KIND", "description": "..."} about members of pools.
//
// Of an answer in no such shape the text is the whole.
func readBody(body []byte) (kind, text string) {
	var octavia struct {
		Code        string `json:"faultcode"`
		String      string `json:"faultstring"`
		Title       string `json:"title"`
		Description string `json:"description"`
	}
	if json.Unmarshal(body, &octavia) == nil && octavia.String+octavia.Description != "" {
		return message.Line(octavia.Code+octavia.Title, maxText), octavia.String + octavia.Description
	}
	var others map[string]json.RawMessage
	if json.Unmarshal(body, &others) == nil && len(others) == 1 {
		for key, value := range others {
			var said struct {
				Type    string `json:"type"`
				Message string `json:"message"`
			}
			if json.Unmarshal(value, &said) != nil || said.Message == "" {
				break
			}
			if key == "NeutronError" {
				key = said.Type
			}
			return message.Line(key, maxText), said.Message
		}
	}
	return "", string(body[:min(len(body), 4*maxText)])
}

// retryAfter reads the header as a number of seconds or as a date. What is longer than an hour is not believed.
func retryAfter(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		return min(time.Duration(min(seconds, 3600))*time.Second, time.Hour)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(time.Until(at), 0), time.Hour)
	}
	return 0
}
