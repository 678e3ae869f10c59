package classify

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/provider"
)

func TestRetryAfterIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := func(d time.Duration, layout string) string { return time.Now().Add(d).UTC().Format(layout) }
		for text, want := range map[string]time.Duration{
			"retry after 500 microseconds":                         500 * time.Microsecond,
			"retry after 500us":                                    500 * time.Microsecond,
			"retry after 500µs":                                    500 * time.Microsecond, // U+00B5
			"retry after 500μs":                                    500 * time.Microsecond, // U+03BC
			"retry after 500ns":                                    500 * time.Nanosecond,
			"retry after 500 nanoseconds":                          500 * time.Nanosecond,
			"retry after 250 milliseconds":                         250 * time.Millisecond,
			"retry after 250ms":                                    250 * time.Millisecond,
			"retry-after 3s":                                       3 * time.Second,
			"retry after 3s":                                       3 * time.Second,
			"retry after 3 sec.":                                   3 * time.Second,
			"retry after 3 Seconds":                                3 * time.Second,
			"retry after 2 min":                                    2 * time.Minute,
			"retry after 2m":                                       2 * time.Minute,
			"retry after 1m30s":                                    90 * time.Second,
			"retry after 1m 30s, then give up":                     90 * time.Second,
			"retry in 1.5 minutes":                                 90 * time.Second,
			"try again after '4' minutes.":                         4 * time.Minute,
			"Try again in 7":                                       7 * time.Second,
			"RetryAfter: 600s, HTTPStatusCode: 0":                  10 * time.Minute,
			"RetryAfter: 0s. Try again after 9 seconds":            9 * time.Second,
			"Retry-After: 7":                                       7 * time.Second,
			"Retry-After: 7 Server: nginx":                         7 * time.Second,
			`{"retryAfter": "6"}`:                                  6 * time.Second,
			`{\"retry_after\": 6.5}`:                               6500 * time.Millisecond,
			`{"retryAfterSeconds":6}`:                              6 * time.Second,
			"map[Retry-After:[12]]":                                12 * time.Second,
			`"retryDelay": "34s"`:                                  34 * time.Second,
			"Retry-After: " + in(30*time.Second, http.TimeFormat):  30 * time.Second,
			"Retry-After: " + in(-30*time.Second, http.TimeFormat): 0,
			"Retry-After: " + in(24*time.Hour, http.TimeFormat):    MaxRetryAfter,
			"retry after " + in(30*time.Second, time.RFC3339):      30 * time.Second,
			"retry after 1h":                                       MaxRetryAfter,
			"retry after 2 hours":                                  MaxRetryAfter,
			"retry after 3 days":                                   MaxRetryAfter,
			"retry after 1e9":                                      0,
			"retry after 99999999999999999999":                     MaxRetryAfter,
			"retry after " + strings.Repeat("9", 400) + " hours":   MaxRetryAfter,
			"Retry-After: -5":                                      0,
			"retry after 3 attempts":                               0,
			"retry after 5 fortnights":                             0,
			"retry after 5parsecs":                                 0,
			"retry after 429-gw is gone":                           0,
			"retry after the upgrade":                              0,
			"retry after":                                          0,
			"entry after 5":                                        0,
		} {
			if got := retryAfterIn(text); got != want {
				t.Errorf("%q asks to wait %s, want %s", text, got, want)
			}
		}
	})
}

func TestRetryAfterOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for value, want := range map[string]time.Duration{
			"": 0, "0": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "-7": 0, "7000": MaxRetryAfter, "soon": 0,
			time.Now().Add(time.Minute).UTC().Format(http.TimeFormat): time.Minute,
			time.Now().Add(time.Minute).UTC().Format(time.ANSIC):      time.Minute,
			time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat):  0,
		} {
			if got := retryAfterOf(http.Header{"Retry-After": {value}}); got != want {
				t.Errorf("Retry-After: %q asks to wait %s, want %s", value, got, want)
			}
		}
	})
}

// Whatever a refusal says of a time, the wait is within bounds.
func TestWaitIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.StringMatching(`-?[0-9]{1,30}(\.[0-9]{1,9})?`).Draw(t, "number")
		unit := rapid.OneOf(rapid.StringMatching(`["' ]{0,2}(ns|us|µs|ms|s|sec|m|min(utes)?|h(ours)?|d|y)?[0-9]{0,3}[a-z]{0,3}`), rapid.String()).Draw(t, "unit")
		lead := rapid.SampledFrom([]string{"Retry-After: ", "RetryAfter=", "retry after ", "try again in '", `"retryDelay":"`}).Draw(t, "lead")
		wait := time.Duration(rapid.Int64().Draw(t, "wait"))
		for _, err := range []error{
			errors.New("429 Too Many Requests: " + lead + number + unit),
			&provider.ThrottledError{RetryAfter: wait, Err: errors.New("x")},
			fmt.Errorf("wrapped: %w", &provider.ThrottledError{RetryAfter: wait, Err: errors.New("x")}),
			google(429, "x", "y", retryAfter(number)),
		} {
			refusal, refused := Refusal(Error(err))
			if !refused || refusal.RetryAfter < 0 || refusal.RetryAfter > MaxRetryAfter {
				t.Fatalf("Error(%q): %#v; want a refusal for 0 to %s", err, refusal, MaxRetryAfter)
			}
			if !errors.Is(Error(err), err) {
				t.Fatalf("Error(%q) loses the error", err)
			}
		}
	})
}

// harmless are errors about an object, an annotation or a parameter, that are no refusal whatever the name is.
var harmless = []string{
	"failed to ensure load balancer: load balancer for service \"prod/%s\": subnet not found",
	"%s: no such instance",
	"service %s/%s has no ports",
	"node %q not found",
	"nodes not found: %s",
	"nodes not found: [%s] in zone b",
	"server %s does not exist",
	"error: %s has no address",
	"%s is invalid because it is in use",
	"invalid value 5 for %s.example.com/%s: at most 20",
	"could not reach https://api.example.com/v1/servers/%s: connection refused",
	"Get \"https://%s.example.com/v1/%s\": EOF",
	"GET https://api.example.com/v1/servers/%s: 500 Server Error",
	"Bad request with: [POST https://api/%s], error message: %s",
	"Expected HTTP response code [200] when accessing [GET https://api/%s], but got 503 instead: %s is away",
	"operation error EC2: DescribeInstances, https response error StatusCode: 400, RequestID: %s, api error ValidationError: %s is not valid",
	"NotFound: %s is not there\n\tstatus code: 404, request id: %s",
	"googleapi: Error 404: The resource 'projects/p/zones/z/instances/%s' was not found, notFound",
	"still creating %s, retry after 5s",
	"[404] %s not found",
	"server %s is locked (locked, %s)",
	"instance type %s in zone %s: 10 of 10 are in use",
}

func TestNamesAreNoRefusals(t *testing.T) {
	words := []string{"throttle", "throttled", "throttling", "rate-limit", "rate-limit-exceeded", "rate-exceeded", "too-many-requests", "429", "quota-exceeded", "retry-after-429"}
	part := rapid.StringMatching(`([a-z0-9]([a-z0-9]{0,4}-)?)?`)
	rapid.Check(t, func(t *rapid.T) {
		name := part.Draw(t, "before") + rapid.SampledFrom(words).Draw(t, "word")
		if after := part.Draw(t, "after"); after != "" {
			name += "-" + strings.TrimSuffix(after, "-")
		}
		template := rapid.SampledFrom(harmless).Draw(t, "template")
		text := template
		for strings.Contains(text, "%") {
			text = strings.Replace(strings.Replace(text, "%q", "\"%s\"", 1), "%s", name, 1)
		}
		err := errors.New(text)
		if got := Error(err); got != err { // The same value: nothing has been wrapped.
			t.Fatalf("Error(%q) = %#v, want the same value", text, got)
		}
	})
}

// A type goes before the text: what a text says by accident is not asked for where the type is certain.
func TestTypesGoBeforeTexts(t *testing.T) {
	for name, err := range map[string]error{
		"AWS v2":      awsV2(400, "ValidationError", "Value 'too many requests' is not valid"),
		"AWS v1":      awsV1Error{code: "ValidationError", message: "Value 'too many requests' is not valid", status: 400},
		"Azure":       azcore(400, "InvalidParameter", "Value 'too many requests' is not valid", nil),
		"Google":      google(404, "The resource 'status 429: too many requests' was not found", "notFound", nil),
		"gophercloud": gophercloud(409, "status 429: too many requests", nil),
		"OCI":         ociError{400, "InvalidParameter", "Value 'too many requests' is not valid"},
	} {
		if got, want := classOf(fmt.Errorf("x: %w", err)), (class{}); got != want {
			t.Errorf("%s:\n%v\ngot  %v\nwant %v", name, err, got, want)
		}
	}
}

func TestAnswersOfTypes(t *testing.T) {
	unexpected := gophercloud(429, "", retryAfter("6"))
	response := &http.Response{StatusCode: 429, Header: retryAfter("6")}
	aws := &smithyResponseError{&smithyResponse{response}, &smithyAPIError{Code: "Throttling"}}
	for name, test := range map[string]struct {
		err      error
		statuses []int
		codes    []string
		wait     time.Duration
	}{
		"smithy":            {aws, []int{429, 429}, []string{"Throttling", "Throttling"}, 6 * time.Second},
		"AWS v2":            {&awsResponseError{aws, ""}, []int{429, 429}, []string{"Throttling", "Throttling"}, 6 * time.Second},
		"smithy, no status": {&smithyAPIError{Code: "Throttling"}, nil, []string{"Throttling", "Throttling"}, 0},
		"AWS v1":            {awsV1Error{code: "Throttling", status: 400}, []int{400}, []string{"Throttling"}, 0},
		"AWS v1, cause":     {awsV1Error{code: "X", orig: awsV1Error{code: "Y", status: 500}}, []int{500}, []string{"X", "Y"}, 0},
		"joined":            {errors.Join(awsV1Error{code: "X", status: 400}, awsV1Error{code: "Y", status: 500}), []int{400, 500}, []string{"X", "Y"}, 0},
		"azcore":            {&azcoreError{"TooManyRequests", 429, response, ""}, []int{429, 429}, []string{"TooManyRequests"}, 6 * time.Second},
		"azcore, alone":     {&azcoreError{"TooManyRequests", 429, nil, ""}, []int{429}, []string{"TooManyRequests"}, 0},
		"autorest":          {autorestError{StatusCode: 429, Response: response}, []int{429, 429}, nil, 6 * time.Second},
		"autorest, alone":   {autorestError{StatusCode: nil}, nil, nil, 0},
		"Google":            {&googleError{Code: 429, Header: retryAfter("6")}, []int{429}, nil, 6 * time.Second},
		"gophercloud":       {unexpected, []int{429}, nil, 6 * time.Second},
		"gophercloud v1":    {gophercloud429{unexpected}, []int{429}, nil, 6 * time.Second},
		"hcloud":            {hcloudError{Code: "locked"}, nil, []string{"locked"}, 0},
		"DigitalOcean":      {godo(429, "", retryAfter("6")), []int{429}, nil, 6 * time.Second},
		"Linode":            {&linodeError{response, 429, ""}, []int{429, 429, 429}, nil, 6 * time.Second},
		"Linode, by value":  {linodeError{Code: 429}, []int{429, 429}, nil, 0},
		"Linode, no status": {linodeError{Code: 2}, nil, nil, 0},
		"OCI":               {ociError{429, "TooManyRequests", ""}, []int{429, 429}, []string{"TooManyRequests", "TooManyRequests"}, 0},
		"OVHcloud":          {&ovhError{Code: 429}, []int{429}, nil, 0},
		"Kubernetes":        {apierrors.NewTooManyRequests("", 6), []int{429}, nil, 6 * time.Second},
		"none of them":      {errors.New("status code: 429"), nil, nil, 0},
	} {
		var got answer
		got.walk(fmt.Errorf("wrapped: %w", test.err))
		if !slices.Equal(got.statuses, test.statuses) || !slices.Equal(got.codes, test.codes) || got.retryAfter != test.wait {
			t.Errorf("%s: got statuses %v, codes %v, wait %s; want %v, %v, %s", name,
				got.statuses, got.codes, got.retryAfter, test.statuses, test.codes, test.wait)
		}
	}
}

func TestOddErrorsAreSurvived(t *testing.T) {
	var none *googleError
	joined := fmt.Errorf("x: %w, %w", errors.New("y"), gophercloud429{gophercloud(429, "", nil)})
	for name, err := range map[string]error{
		"no response":       fmt.Errorf("x: %w", &linodeError{Code: 500}),
		"an embedded nil":   &embedsNil{},
		"a typed nil below": &azureWraps{Original: none},
	} {
		if got := Error(err); got != err {
			t.Errorf("%s: classify = %#v, want the same value", name, got)
		}
	}
	if _, refused := Refusal(Error(joined)); !refused {
		t.Errorf("a refusal beside another error is not found")
	}
}

// embedsNil promotes fields of a nil pointer.
type embedsNil struct{ *googleError }

func (*embedsNil) Error() string { return "x" }

type azureWraps struct{ Original error }

func (*azureWraps) Error() string   { return "x" }
func (e *azureWraps) Unwrap() error { return e.Original }
