package classify

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The texts of errors hold names of objects, parameters and annotations beside the cloud's words. Single words are therefore looked for
// only in a form that a name cannot have: Kubernetes' names have no capitals, underscores and spaces.

// refusalCodes are error codes by which clouds refuse a call for a quota of calls. AWS: aws/retry.DefaultThrottleErrorCodes less the codes that
// are about an object or a quota of objects. Azure: TooManyRequests and those of the Resource Manager. Google: reasons. OCI:
// TooManyRequests. hcloud, DigitalOcean: with underscores. Alibaba and Tencent Cloud: with a suffix.
const refusalCodes = `ThrottlingException|ThrottledException|EC2ThrottledException|RequestThrottled(?:Exception)?|TooManyRequests(?:Exception)?` +
	`|RequestLimitExceeded(?:\.\w+)?|BandwidthLimitExceeded|ProvisionedThroughputExceededException|Throttling\.\w+` +
	`|(?:Subscription|Resource|Tenant|Client)RequestsThrottled` +
	`|(?:user)?[rR]ateLimitExceeded|dailyLimitExceeded|RATE_LIMIT_EXCEEDED|rate_limit_exceeded|too_many_requests`

var (
	// Some codes are also words, and count only where a type calls them a code.
	isRefusalCode   = regexp.MustCompile(`^(?:` + refusalCodes + `|Throttling|SlowDown|DependencyThrottle(?:Exception)?)$`)
	saysRefusalCode = regexp.MustCompile(`(?:^|[^\w./-])(?:` + refusalCodes + `)(?:$|[^\w./-]|\.(?:\s|$))`)
)

// saysStatus finds an HTTP status where SDKs write one. A number is only a status where a status stands: names and IDs may be 429.
var saysStatus = regexp.MustCompile(`(?:` + strings.Join([]string{
	`(?i:status(?:[ _-]?code)?)\W{0,3}`,          // AWS, OCI, Azure: "StatusCode: 503", "status code: 400", "HTTPStatusCode: 429"
	`(?i:\bhttp(?:/\d(?:\.\d)?)? )`,              // "HTTP/1.1 429"
	`(?i:\berror )`,                              // Google: "Error 403:"
	`(?i:\bresponse(?: code)?:? )`,               // azcore: "RESPONSE 429:"; Google without a body
	`(?i:\bcode)\W{0,4}`,                         // JSON: `"code": 429`
	`\b(?:GET|HEAD|POST|PUT|PATCH|DELETE) \S+: `, // godo: "GET https://api...: 429"
}, "|") + `)([45]\d\d)(?:$|[\s,;:)\]}"'\\]|\.(?:\s|$))` +
	`|\bgot ([45]\d\d) instead\b` + // gophercloud
	`|\b(429) Too Many Requests\b` + // http.Response.Status
	`|(?:^|: )\[([45]\d\d)\] [A-Z\[]` + // linodego
	`|^(429)(?:$|: .{0,20}\bRetry-After)`)

// gophercloud v1 writes no status for these, but always the same words.
var saysStatusInWords = []struct {
	words  *regexp.Regexp
	status int
}{
	{regexp.MustCompile(`\bBad request with: \[[A-Z]+ `), 400},
	{regexp.MustCompile(`\bRequest forbidden: \[[A-Z]+ `), 403},
	{regexp.MustCompile(`\bResource not found: \[[A-Z]+ `), 404},
	{regexp.MustCompile(`\bToo many requests have been sent in a given amount of time\b`), 429},
	// gRPC has codes of its own. A quota of objects has this one too, so the words decide.
	{regexp.MustCompile(`\brpc error: code = ResourceExhausted\b`), 503},
}

// statusesIn returns the HTTP statuses from 400 on that a text names.
func statusesIn(text string) (statuses []int) {
	for _, found := range saysStatus.FindAllStringSubmatch(text, -1) {
		if status, err := strconv.Atoi(strings.Join(found[1:], "")); err == nil { // only one of the groups has matched
			statuses = append(statuses, status)
		}
	}
	for _, known := range saysStatusInWords {
		if known.words.MatchString(text) {
			statuses = append(statuses, known.status)
		}
	}
	slices.Sort(statuses)
	return slices.Compact(statuses)
}

// saysThrottled finds the phrases by which clouds, and the clients of their SDKs, refuse a call for a quota of calls.
var saysThrottled = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`\btoo many (?:api )?requests\b`,
	`\brate[ -]limit (?:(?:has been|was|is) )?(?:exceeded|reached|hit)\b`,
	`\b(?:exceeded|reached|hit) (?:(?:the|your|our|an?) )?(?:(?:api|request) )?rate limit\b`,
	`\brequests? limit exceeded\b`,
	`\brequests per (?:second|minute|hour|day) (?:reached|exceeded)\b`, // hcloud
	`(?:^|[:"'(,;.]\s?)rate exceeded\b`,                                // AWS; not "Operation rate exceeded", which is a resource's
	`\bquota exceeded for quota (?:metric|group)\b`,                    // Google
	`\bnumber of (?:'?\w+'? )?requests for .* exceeded the\b`,          // Azure's Resource Manager
	`(?:^|: )throttled(?:, (?:please )?(?:re)?try| by)\b`,              // also provider.ThrottledError as a text
	`\bdue to (?:user |request |api )?(?:throttling\b|flow control\b)`, // Alibaba Cloud
	`\bthrottling threshold has been reached\b`,                        // Huawei Cloud
	`\b(?:requests?|calls?|operations?|client|application) (?:(?:has|have) been|was|were|(?:is|are)(?: being)?) (?:throttled\b|rate[ -]limited\b)`,
}, "|"))

// saysNotSent finds the words of limiters in plugins and SDKs, which refuse a call that the cloud never gets. Azure's own limit, or a
// Retry-After from before: "azure cloud provider throttled for operation X". Azure's and OCI's own limit: "rate limited(read) for operation".
// OCI's circuit breaker, which lets one call through at a time after failures: "too many requests, so this request was not sent".
var saysNotSent = regexp.MustCompile(`\bthis request was not sent to the\b|\bcloud provider throttled for operation\b|\brate limited\((?:read|write)\)`)

// saysObjectBusy finds Azure's answers with status 429, or none, about an object that is being changed, and about its own failures
// inside: kubernetes-sigs/cloud-provider-azure#792.
var saysObjectBusy = regexp.MustCompile(`\b(?:RetryableError|ReferencedResourceNotProvisioned|AnotherOperationInProgress` +
	`|CanceledAndSupersededDueToAnotherOperation)\b` +
	`|\bA retryable error occurr?ed\b|\b[Aa]nother operation\b.{0,60}\bin progress\b`)
