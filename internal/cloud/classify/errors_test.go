package classify

import (
	"errors"
	"testing"
	"time"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

func TestClassify(t *testing.T) {
	for name, test := range map[string]struct {
		err        error
		throttled  bool
		retryAfter time.Duration
	}{
		"sentinel stays as it is":        {err: cloudprovider.InstanceNotFound},
		"plain error stays as it is":     {err: errors.New("connection refused")},
		"status code":                    {err: errors.New("PUT https://api: 429"), throttled: true},
		"status code in words":           {err: errors.New("unexpected status code 429, body: {}"), throttled: true},
		"status line":                    {err: errors.New("HTTP/1.1 429 Too Many Requests"), throttled: true},
		"status text":                    {err: errors.New("Too Many Requests")},
		"EC2":                            {err: errors.New("RequestLimitExceeded: Request limit exceeded."), throttled: true},
		"ELB":                            {err: errors.New("ThrottlingException: Rate exceeded"), throttled: true},
		"Hetzner":                        {err: errors.New("limit of 3600 requests per hour reached (rate_limit_exceeded)"), throttled: true},
		"Google":                         {err: errors.New("googleapi: Error 403: Rate Limit Exceeded, rateLimitExceeded"), throttled: true},
		"in an unknown wording":          {err: errors.New("you have exceeded the API rate limit")},
		"the request was throttled":      {err: errors.New("the request has been throttled")},
		"a ThrottledError as a text":     {err: errors.New("throttled by the cloud, retry after 7s: x")},
		"a status alone":                 {err: errors.New("429"), throttled: true},
		"header":                         {err: errors.New("status 429, Retry-After: 7"), throttled: true, retryAfter: 7 * time.Second},
		"header in a map":                {err: errors.New("429: map[Retry-After:[12]]"), throttled: true, retryAfter: 12 * time.Second},
		"in words":                       {err: errors.New("status 429: throttled, retry after 1.5s"), throttled: true, retryAfter: 1500 * time.Millisecond},
		"in other words":                 {err: errors.New("status 429: rate limit reached, try again in 250 ms"), throttled: true, retryAfter: 250 * time.Millisecond},
		"in minutes":                     {err: errors.New("status 429: Too many requests. Retry after 2 minutes"), throttled: true, retryAfter: 2 * time.Minute},
		"a time without end":             {err: errors.New("429 Too Many Requests, Retry-After: 99999999999999999999"), throttled: true, retryAfter: MaxRetryAfter},
		"an ID that contains the code":   {err: errors.New("instance i-4291 is broken")},
		"an ID that is the code":         {err: errors.New("server 429 does not exist")},
		"an ID with the code in it":      {err: errors.New("code vol-429-a, zone 429.b: not attached")},
		"a wait that is no throttling":   {err: errors.New("the load balancer is being made, retry after 5s")},
		"a quota of machines":            {err: errors.New("quota exceeded: 10 of 10 CPUs are in use")},
		"a setting that is called so":    {err: errors.New("invalid rate-limit annotation: not a number")},
		"typed by the plugin, stays":     {err: &provider.TerminalError{Err: errors.New("429 Too Many Requests")}},
		"typed by the plugin, throttled": {err: &provider.ThrottledError{RetryAfter: time.Second, Err: errors.New("x")}, throttled: true, retryAfter: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			got := Error(test.err)
			refusal, throttled := Refusal(got)
			if throttled != test.throttled {
				t.Errorf("Error(%q) = %#v, throttled: want %v", test.err, got, test.throttled)
			}
			if !test.throttled && got != test.err {
				t.Errorf("Error(%q) = %#v, want the same value", test.err, got)
			}
			if throttled && refusal.RetryAfter != test.retryAfter {
				t.Errorf("Error(%q) asks to wait %s, want %s", test.err, refusal.RetryAfter, test.retryAfter)
			}
		})
	}
}
