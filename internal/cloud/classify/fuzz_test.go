package classify

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// FuzzErrorText asserts what holds for every error of a plugin, whatever it says: it stays what it is, only the types say that an instance is
// gone, and a wait is bounded.
func FuzzErrorText(f *testing.F) {
	for _, text := range []string{
		"", "boom", "instance not found", "StatusCode: 404, instance not found", "api error Throttling: Rate exceeded", "googleapi: Error 403: rateLimitExceeded",
		"HTTP/1.1 429 Too Many Requests\nRetry-After: 99999999999999999999", "retry after 1h30m500ms", "retry after " + strings.Repeat("9", 400) + "h",
		`Code="TooManyRequests" RetryAfter: 2026-11-22T00:00:00Z`, "oauth2: cannot fetch token: 401", "Another operation is in progress", "\x1b[2J\xff",
		"instance does not exist", "429: Retry-After", strings.Repeat("status code: 429 ", 500), "retry after -1s", "try again in 5 µs",
	} {
		f.Add(text, 0)
		f.Add(text, 429)
	}
	f.Fuzz(func(t *testing.T, text string, status int) {
		for _, err := range []error{
			errors.New(text), fmt.Errorf("outer: %w", errors.New(text)), errors.Join(errors.New(text), errors.New(text)), awsV2(status, text, text),
		} {
			got := Error(err)
			if !errors.Is(got, err) || errors.Is(got, cloudprovider.InstanceNotFound) || errors.Is(got, cloudprovider.NotImplemented) {
				t.Errorf("%q becomes %v", text, got)
			}
			if wait, asked := RetryAfter(got); wait < 0 || wait > MaxRetryAfter || !asked && wait != 0 {
				t.Errorf("%q asks to wait %s, %t", text, wait, asked)
			}
			if outcome := OutcomeOf(got); outcome != OutcomeError && outcome != OutcomeThrottled {
				t.Errorf("%q is %s", text, outcome)
			}
			if again := OutcomeOf(Error(got)); again != OutcomeOf(got) {
				t.Errorf("%q is %s, and then %s", text, OutcomeOf(got), again)
			}
		}
	})
}

// FuzzRetryAfter asserts that a header asks for a wait within bounds, and that text and header agree about whole seconds.
func FuzzRetryAfter(f *testing.F) {
	for _, value := range []string{"7", " 7 ", "-7", "0", "1e9", "99999999999999999999", "soon", "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", "1.5", "7s", "\xff"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for _, wait := range []time.Duration{retryAfterOf(http.Header{"Retry-After": {value}}), retryAfterIn("Retry-After: " + value)} {
			if wait < 0 || wait > MaxRetryAfter {
				t.Errorf("%q asks to wait %s", value, wait)
			}
		}
		err := &provider.ThrottledError{RetryAfter: retryAfterIn(value), Err: errors.New(value)}
		if wait, _ := RetryAfter(err); wait < 0 || wait > MaxRetryAfter {
			t.Errorf("%q asks to wait %s", value, wait)
		}
	})
}
