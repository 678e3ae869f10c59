package cloud

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// class is what an error is taken for.
type class struct {
	refused bool
	wait    time.Duration
	request bool
}

func (c class) String() string {
	return fmt.Sprintf("{refused: %t, wait: %s, request's: %t}", c.refused, c.wait, c.request)
}

var (
	failure  = class{}
	refusal  = class{refused: true}
	requests = class{request: true}
)

func refusedFor(wait time.Duration) class { return class{refused: true, wait: wait} }

func classOf(err error) class {
	got := class{request: isRequestError(err)}
	if refusal, refused := throttled(classify(err)); refused {
		got.refused, got.wait = true, refusal.RetryAfter
	}
	return got
}

// message is an error as plugins get it from an SDK. It arrives in two ways: wrapped, with its type, and as its text alone.
type message struct {
	err   error
	want  class
	plain *class // of the text alone, where that says less
}

// inHeader is what a text says of a response whose Retry-After is only in the header.
var inHeader = &refusal

func retryAfter(value string) http.Header { return http.Header{"Retry-After": {value}} }

func text(s string) error { return errors.New(s) }

// sdkMessages are errors of the clouds' SDKs: the format is the SDK's, the words are the cloud's from public issues.
func sdkMessages() map[string]message {
	all := map[string]message{}
	for _, of := range []map[string]message{awsMessages(), azureMessages(), googleMessages(), openstackMessages(), otherMessages()} {
		for name, m := range of {
			all[name] = m
		}
	}
	return all
}

func awsMessages() map[string]message {
	throttling := awsV2("", 400, "Throttling", "Rate exceeded")
	limit := awsV2("", 503, "RequestLimitExceeded", "Request limit exceeded.")
	internal := awsV2("", 500, "InternalError", "An internal error has occurred")
	return map[string]message{
		// aws-sdk-go issue 1271; k/k issue 21630: ELB says 400 for it.
		"AWS v1, ELB":        {err: awsV1Error{code: "Throttling", message: "Rate exceeded", status: 400}, want: refusal},
		"AWS v1, ELB, in %q": {err: fmt.Errorf("error describing load balancer: %q", awsV1Error{code: "Throttling", message: "Rate exceeded", status: 400}), want: refusal},
		// danihodovic/generate-ssh-configs issue 3: EC2 says 503.
		"AWS v1, EC2": {err: awsV1Error{code: "RequestLimitExceeded", message: "Request limit exceeded.", status: 503}, want: refusal},
		// aws-load-balancer-controller issue 645.
		"AWS v1, tagging API": {err: awsV1Error{code: "ThrottledException", message: "Rate exceeded", status: 400}, want: refusal},
		// awserr: an error that has another as its cause.
		"AWS v1, a cause": {err: awsV1Error{code: "RequestCanceled", message: "failed", orig: awsV1Error{code: "Throttling", message: "Rate exceeded", status: 400}}, want: refusal},
		// k/k issue 21630.
		"AWS v1, two subnets in a zone": {
			err:  awsV1Error{code: "InvalidConfigurationRequest", message: "ELB cannot be attached to multiple subnets in the same AZ.", status: 409},
			want: requests,
		},
		// kserve issue 2179: a quota of load balancers.
		"AWS v1, too many load balancers": {err: awsV1Error{code: "TooManyLoadBalancers", message: "Exceeded quota of account 809251082950", status: 400}, want: requests},
		// aws/request/validation.go ErrInvalidParams: the SDK does not send the request.
		"AWS v1, invalid before it is sent": {
			err:  awsV1Error{code: "InvalidParameter", message: "1 validation error(s) found.\n- missing required field, CreateTagsInput.Tags.\n"},
			want: requests,
		},
		// aws/request/request.go, Send.
		"AWS v1, no connection": {err: awsV1Error{code: "RequestError", message: "send request failed", orig: text("dial tcp 10.0.4.29:443: connect: connection refused")}, want: failure},
		"AWS v1, credentials":   {err: awsV1Error{code: "ExpiredToken", message: "The security token included in the request is expired", status: 403}, want: failure},
		"AWS v1, internal":      {err: awsV1Error{code: "InternalError", message: "An internal error has occurred", status: 500}, want: failure},

		// aws-sdk-go-v2 issue 1405.
		"AWS v2, ELB":                   {err: awsOperation("Elastic Load Balancing v2", "DescribeTargetGroups", throttling), want: refusal},
		"AWS v2, EC2":                   {err: awsOperation("EC2", "DescribeInstances", limit), want: refusal},
		"AWS v2, EC2, the last attempt": {err: awsOperation("EC2", "DescribeInstances", &awsMaxAttemptsError{3, limit}), want: refusal},
		"AWS v2, exception":             {err: awsOperation("Glacier", "DeleteArchive", &awsMaxAttemptsError{3, awsV2("", 400, "ThrottlingException", "Rate exceeded")}), want: refusal},
		"AWS v2, only in the type":      {err: awsOperation("S3", "PutObject", awsV2("", 503, "SlowDown", "Please reduce your request rate.")), want: refusal, plain: &failure},
		// aws/retry/middleware.go joins the two. What the SDK was repeating decides.
		"AWS v2, the SDK's own quota, after refusals": {err: awsOperation("EC2", "DescribeInstances", errors.Join(limit, awsTokenError())), want: refusal},
		"AWS v2, the SDK's own quota, after failures": {err: awsOperation("EC2", "DescribeInstances", errors.Join(internal, awsTokenError())), want: failure},
		// treeverse/lakeFS issue 6621: before they were joined.
		"AWS v2, the SDK's own quota, alone": {err: awsOperation("EC2", "DescribeInstances", awsTokenError()), want: failure},
		"AWS v2, invalid": {err: awsOperation("Elastic Load Balancing v2", "CreateListener",
			awsV2("", 400, "ValidationError", "Value 'throttle' at 'tags' failed to satisfy constraint")), want: requests},
		"AWS v2, not found":   {err: awsOperation("EC2", "DescribeInstances", awsV2("", 400, "InvalidInstanceID.NotFound", "The instance ID 'i-0429' does not exist")), want: requests},
		"AWS v2, forbidden":   {err: awsOperation("EC2", "CreateRoute", awsV2("", 403, "UnauthorizedOperation", "You are not authorized to perform this operation.")), want: requests},
		"AWS v2, credentials": {err: awsOperation("EC2", "DescribeInstances", awsV2("", 401, "AuthFailure", "AWS was not able to validate the provided access credentials")), want: failure},
		"AWS v2, a quota of rules": {err: awsOperation("EC2", "AuthorizeSecurityGroupIngress",
			awsV2("", 400, "RulesPerSecurityGroupLimitExceeded", "The maximum number of rules per security group has been reached.")), want: requests},
		"AWS v2, internal": {err: awsOperation("EC2", "DescribeInstances", &awsMaxAttemptsError{3, internal}), want: failure},
		"AWS v2, no token": {err: awsOperation("EC2", "DescribeInstances", text("get identity: get credentials: failed to refresh cached credentials, no EC2 IMDS role found")), want: failure},
	}
}

func azureMessages() map[string]message {
	const busy = "Cannot proceed with operation because resource /subscriptions/x/publicIPAddresses/a used by resource /subscriptions/x/loadBalancers/kubernetes" +
		" is not in Succeeded state. Resource is in Updating state and the last operation that updated/is updating the resource is PutPublicIpAddressOperation."
	const busyDetail = `Code="RetryableError" Message="A retryable error occurred." Details=[{"code":"ReferencedResourceNotProvisioned","message":"` + busy + `"}]`
	return map[string]message{
		// azuredisk-csi-driver issue 773, both.
		"Azure legacy, writes": {err: legacyAzure(302, 429, `{"error":{"code":"SubscriptionRequestsThrottled","message":"Number of write requests for subscription 'XYZ'`+
			` exceeded the limit of '1200' for time interval '01:00:00'. Please try again after '303' seconds."}}`), want: refusedFor(303 * time.Second)},
		"Azure legacy, its client waits": {
			err:  legacyAzure(297, 0, "azure cloud provider throttled for operation DiskCreateOrUpdate with reason 'client throttled'"),
			want: refusedFor(297 * time.Second),
		},
		"Azure legacy, its client waits long": {
			err:  legacyAzure(600, 0, "azure cloud provider throttled for operation LBCreateOrUpdate with reason 'client throttled'"),
			want: refusedFor(600 * time.Second),
		},
		// pkg/retry/azure_error.go, GetRateLimitError.
		"Azure legacy, its client's rate": {err: legacyAzure(0, 0, `azure cloud provider rate limited(write) for operation "LBCreateOrUpdate"`), want: refusal},
		// terraform-provider-azurerm issue 19146.
		"Azure legacy, compute": {err: legacyAzure(0, 429, `{"error":{"code":"OperationNotAllowed","message":"The server rejected the request because too many requests have`+
			` been received for this subscription.","details":[{"code":"TooManyRequests","target":"HighCostGet30Min"}]}}`), want: refusal},
		// cloud-provider-azure issue 792: 429, and no quota.
		"Azure legacy, 429 for its own failure": {err: legacyAzure(0, 429, `{"Error":{"Details":[{"Code":"GatewayError","Message":"Error occurred in resource provider`+
			` infrastructure services."}],"Code":"RetryableError","Message":"A retryable error occurred."}}`), want: requests},
		// coreos/tectonic-installer issue 1460.
		"Azure legacy, 429 for a resource that is being changed": {err: autorestError{
			PackageType: "network.LoadBalancersClient", Method: "CreateOrUpdate", Message: "Failure responding to request",
			StatusCode: 429, Original: text("autorest/azure: Service returned an error. Status=429 " + busyDetail),
		}, want: requests},
		// gardener-extension-provider-azure issue 2: no status at all.
		"Azure legacy, a resource that is being changed": {err: text(`Code="ReferencedResourceNotProvisioned" Message="` + busy + `"`), want: requests},
		// microsoft/AzureTRE issue 2222.
		"Azure legacy, another operation": {err: text(`autorest/azure: Service returned an error. Status=<nil> Code="AnotherOperationInProgress" Message="Another operation` +
			` on this or dependent resource is in progress."`), want: requests},
		"Azure legacy, forbidden":   {err: legacyAzure(0, 403, `{"error":{"code":"AuthorizationFailed","message":"The client does not have authorization."}}`), want: requests},
		"Azure legacy, 503 to wait": {err: legacyAzure(60, 503, `{"error":{"code":"ServiceUnavailable","message":"The service is unavailable."}}`), want: failure},

		// azqr issue 34.
		"Azure, reads": {err: azcore(429, "ResourceRequestsThrottled", "Number of requests for action 'Microsoft.Network/loadBalancers/read' exceeded the limit of '50'"+
			" for time interval '00:05:00'. Please try again after '372' seconds.", nil), want: refusedFor(372 * time.Second)},
		// terraform-provider-azurerm issue 7694; the Resource Manager's documentation on throttling.
		"Azure, minutes": {err: azcore(429, "OperationNotAllowed", "Number of 'write' requests for subscription 'x' actor 'y' exceeded. Please try again after '5' minutes after"+
			" additional tokens are available.", nil), want: refusedFor(5 * time.Minute)},
		"Azure, header":     {err: azcore(429, "TooManyRequests", "The request is being throttled.", retryAfter("17")), want: refusedFor(17 * time.Second), plain: inHeader},
		"Azure, long":       {err: azcore(429, "TooManyRequests", "The request is being throttled.", retryAfter("86400")), want: refusedFor(longestHold), plain: inHeader},
		"Azure, its client": {err: &azureThrottleError{RetryAfter: time.Now().Add(90 * time.Second)}, want: refusedFor(90 * time.Second), plain: inHeader},
		// pkg/azclient/policy/ratelimit, ErrRateLimitReached.
		"Azure, its client's rate": {err: text("rate limit reached"), want: refusal},
		// terraform-provider-azurerm issue 25417.
		"Azure, 429 for a resource that is being changed": {err: azcore(429, "RetryableError", "A retryable error occurred.", retryAfter("10")), want: requests},
		"Azure, 429 for another operation":                {err: azcore(429, "AnotherOperationInProgress", "Another operation on this or dependent resource is in progress.", nil), want: requests},
		"Azure, 429 in the words of terraform": {
			err:  text("unexpected status 429 (429 Too Many Requests) with error: RetryableError: A retryable error occurred."),
			want: requests,
		},
		"Azure, invalid":     {err: azcore(400, "InvalidRequestFormat", "Cannot parse the request.", nil), want: requests},
		"Azure, etag":        {err: azcore(412, "PreconditionFailed", "Precondition failed.", nil), want: requests},
		"Azure, cores":       {err: azcore(409, "OperationNotAllowed", "Operation could not be completed as it results in exceeding approved Total Regional Cores quota.", nil), want: requests},
		"Azure, token":       {err: azcore(401, "ExpiredAuthenticationToken", "The access token expiry UTC time is earlier than current UTC time.", nil), want: failure},
		"Azure, credentials": {err: text("ClientSecretCredential authentication failed\nPOST https://login.microsoftonline.com/x/oauth2/v2.0/token\nRESPONSE 400 Bad Request\nAADSTS7000222: The provided client secret keys are expired"), want: failure},
		"Azure, unavailable": {err: azcore(503, "ServiceUnavailable", "The service is unavailable.", retryAfter("30")), want: failure},
	}
}

func googleMessages() map[string]message {
	const reads = "Quota exceeded for quota group 'ReadGroup' and limit 'Read requests per 100 seconds' of service 'compute.googleapis.com' for consumer 'project_number:123456'."
	const queries = "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute' of service 'compute.googleapis.com' for consumer 'project_number:123456'."
	return map[string]message{
		// terraform-provider-google issue 8360.
		"Google, reads":         {err: google(403, reads, "rateLimitExceeded", nil), want: refusal},
		"Google, queries":       {err: google(403, queries, "rateLimitExceeded", nil), want: refusal},
		"Google, the user's":    {err: google(403, "User Rate Limit Exceeded", "userRateLimitExceeded", nil), want: refusal},
		"Google, 429":           {err: google(429, "Resource has been exhausted (e.g. check quota).", "RESOURCE_EXHAUSTED", retryAfter("30")), want: refusedFor(30 * time.Second), plain: inHeader},
		"Google, many reasons":  {err: &googleError{Code: 403, Message: queries, Errors: []googleErrorItem{{"rateLimitExceeded", "a"}, {"forbidden", "b"}}}, want: refusal},
		"Google, without JSON":  {err: &googleError{Code: 429, Body: "<html>429</html>", Header: retryAfter("2")}, want: refusedFor(2 * time.Second), plain: inHeader},
		"Google, JSON in words": {err: text(`googleapi: got HTTP response code 403 with body: {"error":{"code": 403, "errors":[{"reason":"rateLimitExceeded"}]}}`), want: refusal},
		"Google, gRPC":          {err: text("rpc error: code = ResourceExhausted desc = " + queries), want: refusal},
		// google.rpc.RetryInfo in the details.
		"Google, delay": {err: text("googleapi: Error 429: " + queries + "\nDetails:\n[{\"@type\": \"type.googleapis.com/google.rpc.RetryInfo\", \"retryDelay\": \"34.5s\"}]"), want: refusedFor(34500 * time.Millisecond)},
		// python-compute issue 279: a rate of one resource.
		"Google, the rate of a resource": {
			err:  google(403, "Operation rate exceeded for resource 'projects/p/global/backendServices/b'. Too frequent operations from the source resource.", "rateLimitExceededForResource", nil),
			want: requests,
		},
		"Google, a quota of rules": {err: google(403, "Quota 'FORWARDING_RULES' exceeded. Limit: 75.0 globally.", "quotaExceeded", nil), want: requests},
		"Google, invalid":          {err: google(400, "Invalid value for field 'resource.name': 'throttle_429'.", "invalid", nil), want: requests},
		"Google, not ready":        {err: google(400, "The resource 'projects/p/zones/z/instances/i' is not ready", "resourceNotReady", nil), want: requests},
		"Google, in use":           {err: google(400, "The firewall resource is already being used by 'rate-limit'", "resourceInUseByAnotherResource", nil), want: requests},
		"Google, not found":        {err: google(404, "The resource 'projects/p/zones/z/instances/gke-429' was not found", "notFound", nil), want: requests},
		"Google, unavailable":      {err: google(503, "Backend Error", "backendError", nil), want: failure},
		"Google, credentials":      {err: text(`Get "https://compute.googleapis.com/compute/v1/projects/p": oauth2: cannot fetch token: 400 Bad Request Response: {"error":"invalid_grant"}`), want: failure},
	}
}

func openstackMessages() map[string]message {
	v1 := func(status int, body string, header http.Header) gophercloudUnexpected {
		err := gophercloud(status, body, header)
		err.v1 = true
		return err
	}
	const immutable = `{"faultcode": "Client", "faultstring": "Load Balancer cb8e830a-6cc8-4a0f-b854-270905bc43d1 is immutable and cannot be updated.", "debuginfo": null}`
	return map[string]message{
		// terraform-provider-openstack issue 1365.
		"gophercloud v1, 429":            {err: gophercloud429{v1(429, "", retryAfter("6"))}, want: refusedFor(6 * time.Second), plain: inHeader},
		"gophercloud v1, unexpected 429": {err: v1(429, "", nil), want: refusal},
		// cloudfoundry/bosh issues 99 and 597: services before Kilo say 413.
		"gophercloud v1, 413": {err: v1(413, `{"overLimit": {"code": 413, "message": "This request was rate-limited.", "details": "Only 10 POST request(s) can be made`+
			` to * every minute.", "retryAfter": "6"}}`, nil), want: refusedFor(6 * time.Second)},
		"gophercloud v1, invalid":      {err: gophercloud400{v1(400, `{"faultcode": "Client", "faultstring": "Invalid input for field client_conn_throttle"}`, nil)}, want: requests},
		"gophercloud v1, quota of FIP": {err: gophercloud403{v1(403, `{"NeutronError": {"type": "OverQuota", "message": "Quota exceeded for resources: ['floatingip']."}}`, nil)}, want: requests},
		"gophercloud v1, 503":          {err: gophercloud503{v1(503, "", retryAfter("30"))}, want: failure},
		// cluster-api-provider-openstack issue 1687.
		"gophercloud v1, busy": {err: v1(409, immutable, nil), want: requests},
		"gophercloud v2, 429":  {err: gophercloud(429, "Rate limit exceeded", retryAfter("12")), want: refusedFor(12 * time.Second), plain: inHeader},
		"gophercloud v2, busy": {err: gophercloud(409, immutable, nil), want: requests},
		"gophercloud v2, quota of balancers": {
			err:  gophercloud(403, `{"faultcode": "Client", "faultstring": "Quota has been met for resources: load_balancer", "debuginfo": null}`, nil),
			want: requests,
		},
		"gophercloud v2, token":    {err: gophercloud(401, `{"error": {"code": 401, "title": "Unauthorized"}}`, nil), want: failure},
		"gophercloud v2, internal": {err: gophercloud(500, `{"faultstring": "too many requests to the database"}`, nil), want: failure},
		"OVHcloud, 429":            {err: ovhError{Class: "Client::TooManyRequests", Message: "Too many requests", Code: 429, QueryID: "EU.ext-3"}, want: refusal},
		"OVHcloud, invalid":        {err: ovhError{Class: "Client::BadRequest", Message: "Invalid IP", Code: 400, QueryID: "EU.ext-4"}, want: requests},
	}
}

func otherMessages() map[string]message {
	return map[string]message{
		"hcloud, limit": {err: hcloudError{Code: "rate_limit_exceeded", Message: "limit of 3600 requests per hour reached"}, want: refusal},
		// hcloud-cloud-controller-manager, load balancers with more targets than their type has.
		"hcloud, targets":     {err: hcloudError{Code: "resource_limit_exceeded", Message: "target limit exceeded"}, want: requests},
		"hcloud, invalid":     {err: hcloudError{Code: "invalid_input", Message: "invalid input in field 'name'"}, want: requests},
		"hcloud, locked":      {err: hcloudError{Code: "locked", Message: "load balancer is locked"}, want: requests},
		"hcloud, failure":     {err: hcloudError{Code: "service_error", Message: "internal error"}, want: failure},
		"hcloud, token":       {err: hcloudError{Code: "unauthorized", Message: "unable to authenticate"}, want: failure},
		"hcloud, maintenance": {err: hcloudError{Code: "maintenance", Message: "cannot perform operation due to maintenance"}, want: failure},
		// csi-digitalocean issue 404; terraform-provider-digitalocean issue 546.
		"DigitalOcean, requests":   {err: godo(429, "Too many requests", retryAfter("3")), want: refusedFor(3 * time.Second), plain: inHeader},
		"DigitalOcean, limit":      {err: godo(429, "API Rate limit exceeded.", nil), want: refusal},
		"DigitalOcean, body":       {err: text(`{"id":"too_many_requests","message":"API Rate limit exceeded."}`), want: refusal},
		"DigitalOcean, two values": {err: text("GET https://api.digitalocean.com/v2/volumes?region=ams3: 429 Too many requests  status=500"), want: refusal},
		"DigitalOcean, invalid":    {err: godo(422, "forwarding rules: throttle is not a known key", nil), want: requests},
		"DigitalOcean, failure":    {err: godo(500, "Server Error", nil), want: failure},
		// cluster-api-provider-linode pull request 404.
		"Linode, 429":           {err: &linodeError{Code: 429, Message: "Too many requests", Response: &http.Response{StatusCode: 429, Header: retryAfter("4")}}, want: refusedFor(4 * time.Second), plain: inHeader},
		"Linode, invalid":       {err: linodeError{Code: 400, Message: "[client_conn_throttle] Must be between 0 and 20"}, want: requests},
		"Linode, not found":     {err: linodeError{Code: 404, Message: "Not found"}, want: requests},
		"Linode, no connection": {err: linodeError{Code: 2, Message: `Get "https://api.linode.com/v4/nodebalancers": EOF`}, want: failure},
		// oci-cloud-controller-manager issues 60, 378 and 104; ManageIQ issue 22936.
		"OCI, requests":      {err: ociError{429, "TooManyRequests", "Too many requests for the tenants"}, want: refusal},
		"OCI, older":         {err: text("get subnets for backends: Status: 429; Code: TooManyRequests; OPC Request ID: /BDB7FC30/50F507; Message: User-rate limit exceeded."), want: refusal},
		"OCI, service limit": {err: ociError{400, "LimitExceeded", "The following service limits were exceeded: lb-100mbps-count."}, want: requests},
		"OCI, older limit":   {err: text("Service error:LimitExceeded. The following service limits were exceeded: lb-100mbps-count. . http status code: 400. Opc request id: 4e739ed5"), want: requests},
		"OCI, etag":          {err: text("update lb security list rules: Status: 412; Code: NoEtagMatch; OPC Request ID: /0BFAD5; Message: Entity security list has a computed tag"), want: requests},
		"OCI, state":         {err: ociError{409, "IncorrectState", "The load balancer is in state UPDATING"}, want: requests},
		"OCI, credentials":   {err: ociError{401, "NotAuthenticated", "The required information to complete authentication was not provided."}, want: failure},
		"OCI, failure":       {err: ociError{500, "InternalServerError", "Internal error occurred"}, want: failure},
		// common/errors.go, getCircuitBreakerError: gobreaker's ErrTooManyRequests.
		"OCI, its client's breaker": {err: text("too many requests, so this request was not sent to the LoadBalancer service.\n\n The circuit breaker was opened because the" +
			" LoadBalancer service failed too many times recently."), want: failure},
		// terraform-provider-vsphere issue 1314, with another number.
		"vSphere, gone": {err: text("ServerFaultCode: The object 'vim.VirtualMachine:vm-429' has already been deleted or has not been completely created"), want: failure},
		"Yandex, a quota of balancers": {
			err:  text("rpc error: code = ResourceExhausted desc = Quota limit ylb.networkLoadBalancers.count exceeded"),
			want: failure,
		},
		// steampipe-plugin-alicloud issue 483.
		"Alibaba":  {err: text("SDK.ServerError\nErrorCode: Throttling.User\nRequestId: 1\nMessage: Request was denied due to user flow control."), want: refusal},
		"Scaleway": {err: text("scaleway-sdk-go: http error 429 Too Many Requests: too many requests"), want: refusal},
		// KubeVirt: the cloud is a Kubernetes API.
		"Kubernetes, requests": {err: apierrors.NewTooManyRequests("the server is busy", 5), want: refusedFor(5 * time.Second), plain: &failure},
		"Kubernetes, conflict": {err: apierrors.NewConflict(schema.GroupResource{Resource: "services"}, "throttle", text("the object has been modified")), want: requests, plain: &failure},
		// client-go, rest/request.go: the client's own limit.
		"Kubernetes, its client's rate": {err: text("client rate limiter Wait returned an error: rate: Wait(n=1) would exceed context deadline"), want: failure},
	}
}

func TestMessagesOfClouds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		messages := sdkMessages()
		if len(messages) < 45 {
			t.Errorf("%d messages, want at least 45", len(messages))
		}
		for name, m := range messages {
			wrapped := fmt.Errorf("failed to ensure load balancer: %w", fmt.Errorf("prod/throttle-429: %w", m.err))
			if got := classOf(wrapped); got != m.want {
				t.Errorf("%s, with its type:\n%v\ngot  %v\nwant %v", name, wrapped, got, m.want)
			}
			want := m.want
			if m.plain != nil {
				want = *m.plain
			}
			if plain := fmt.Errorf("failed to ensure load balancer: prod/throttle-429: %v", m.err); classOf(plain) != want {
				t.Errorf("%s, as a text:\n%v\ngot  %v\nwant %v", name, plain, classOf(plain), want)
			}
			if plain := errors.New(m.err.Error()); classOf(plain) != want {
				t.Errorf("%s, as a text alone:\n%v\ngot  %v\nwant %v", name, plain, classOf(plain), want)
			}
		}
	})
}
