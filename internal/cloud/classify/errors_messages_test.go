package classify

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
}

func (c class) String() string {
	return fmt.Sprintf("{refused: %t, wait: %s}", c.refused, c.wait)
}

func classOf(err error) class {
	got := class{}
	if refusal, refused := Refusal(Error(err)); refused {
		got.refused, got.wait = true, refusal.RetryAfter
	}
	return got
}

// message is an error as plugins get it from an SDK. It arrives in two ways: wrapped, with its type, and as its text alone.
type message struct {
	err          error
	typed, plain class
}

func refused(err error) message { return refusalFor(0, err) }

func refusalFor(wait time.Duration, err error) message {
	return message{err, class{refused: true, wait: wait}, class{refused: true, wait: wait}}
}

// inHeader is a refusal that says how long to wait only in the header of its response.
func inHeader(wait time.Duration, err error) message {
	return message{err, class{refused: true, wait: wait}, class{refused: true}}
}

// other is an error that is no refusal for a quota: a failure, or an answer about the request.
func other(err error) message { return message{err: err} }

// onlyTyped is an error whose text alone is a failure as any other.
func onlyTyped(m message) message { return message{err: m.err, typed: m.typed} }

func retryAfter(value string) http.Header { return http.Header{"Retry-After": {value}} }

func text(s string) error { return errors.New(s) }

// sdkMessages are errors of the clouds' SDKs. The format is the SDK's: see its type's double. The words are the cloud's, from the issue or the
// function that is named, or else by the code's description in the cloud's documentation.
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
	throttling := awsV2(400, "Throttling", "Rate exceeded")
	limit := awsV2(503, "RequestLimitExceeded", "Request limit exceeded.")
	internal := awsV2(500, "InternalError", "An internal error has occurred")
	return map[string]message{
		// kubernetes issue 21630: ELB says 400 for it. In-tree code quoted it.
		"AWS v1, ELB":        refused(awsV1Error{code: "Throttling", message: "Rate exceeded", status: 400}),
		"AWS v1, ELB, in %q": refused(fmt.Errorf("error describing load balancer: %q", awsV1Error{code: "Throttling", message: "Rate exceeded", status: 400})),
		// danihodovic/generate-ssh-configs issue 3: EC2 says 503.
		"AWS v1, EC2": refused(awsV1Error{code: "RequestLimitExceeded", message: "Request limit exceeded.", status: 503}),
		// aws-load-balancer-controller issue 645.
		"AWS v1, tagging API": refused(awsV1Error{code: "ThrottledException", message: "Rate exceeded", status: 400}),
		// awserr: an error that has another as its cause.
		"AWS v1, a cause": refused(awsV1Error{code: "RequestCanceled", message: "failed", orig: awsV1Error{code: "Throttling", message: "Rate exceeded", status: 400}}),
		// kubernetes issue 21630.
		"AWS v1, two subnets in a zone": other(awsV1Error{code: "InvalidConfigurationRequest", message: "ELB cannot be attached to multiple subnets in the same AZ.", status: 409}),
		// kserve issue 2179: a quota of load balancers.
		"AWS v1, too many load balancers": other(awsV1Error{code: "TooManyLoadBalancers", message: "Exceeded quota of account 809251082950", status: 400}),
		// aws/request/validation.go ErrInvalidParams: the SDK does not send the request.
		"AWS v1, invalid before it is sent": other(awsV1Error{code: "InvalidParameter", message: "1 validation error(s) found.\n- missing required field, CreateTagsInput.Tags.\n"}),
		// aws/request/request.go, Send.
		"AWS v1, no connection": other(awsV1Error{code: "RequestError", message: "send request failed", orig: text("dial tcp 10.0.4.29:443: connect: connection refused")}),
		"AWS v1, credentials":   other(awsV1Error{code: "ExpiredToken", message: "The security token included in the request is expired", status: 403}),
		"AWS v1, internal":      other(awsV1Error{code: "InternalError", message: "An internal error has occurred", status: 500}),

		// aws-sdk-go-v2 issue 1405.
		"AWS v2, ELB":                   refused(awsOperation("Elastic Load Balancing v2", "DescribeTargetGroups", throttling)),
		"AWS v2, EC2":                   refused(awsOperation("EC2", "DescribeInstances", limit)),
		"AWS v2, EC2, the last attempt": refused(awsOperation("EC2", "DescribeInstances", &awsMaxAttemptsError{3, limit})),
		"AWS v2, exception":             refused(awsOperation("Glacier", "DeleteArchive", &awsMaxAttemptsError{3, awsV2(400, "ThrottlingException", "Rate exceeded")})),
		"AWS v2, only in the type":      onlyTyped(refused(awsOperation("S3", "PutObject", awsV2(503, "SlowDown", "Please reduce your request rate.")))),
		// aws/retry/middleware.go joins the two. What the SDK was repeating decides.
		"AWS v2, the SDK's own quota, after refusals": refused(awsOperation("EC2", "DescribeInstances", errors.Join(limit, awsTokenError()))),
		"AWS v2, the SDK's own quota, after failures": other(awsOperation("EC2", "DescribeInstances", errors.Join(internal, awsTokenError()))),
		// treeverse/lakeFS issue 6621: before they were joined.
		"AWS v2, the SDK's own quota, alone": other(awsOperation("EC2", "DescribeInstances", awsTokenError())),
		"AWS v2, invalid": other(awsOperation("Elastic Load Balancing v2", "CreateListener",
			awsV2(400, "ValidationError", "Value 'throttle' at 'tags' failed to satisfy constraint"))),
		"AWS v2, not found":   other(awsOperation("EC2", "DescribeInstances", awsV2(400, "InvalidInstanceID.NotFound", "The instance ID 'i-0429' does not exist"))),
		"AWS v2, forbidden":   other(awsOperation("EC2", "CreateRoute", awsV2(403, "UnauthorizedOperation", "You are not authorized to perform this operation."))),
		"AWS v2, credentials": other(awsOperation("EC2", "DescribeInstances", awsV2(401, "AuthFailure", "AWS was not able to validate the provided access credentials"))),
		"AWS v2, a quota of rules": other(awsOperation("EC2", "AuthorizeSecurityGroupIngress",
			awsV2(400, "RulesPerSecurityGroupLimitExceeded", "The maximum number of rules per security group has been reached."))),
		"AWS v2, internal": other(awsOperation("EC2", "DescribeInstances", &awsMaxAttemptsError{3, internal})),
		"AWS v2, no token": other(awsOperation("EC2", "DescribeInstances", text("get identity: get credentials: failed to refresh cached credentials, no EC2 IMDS role found"))),
	}
}

func azureMessages() map[string]message {
	const busy = "Cannot proceed with operation because resource /subscriptions/x/publicIPAddresses/a used by resource /subscriptions/x/loadBalancers/kubernetes" +
		" is not in Succeeded state. Resource is in Updating state and the last operation that updated/is updating the resource is PutPublicIpAddressOperation."
	const busyDetail = `Code="RetryableError" Message="A retryable error occurred." Details=[{"code":"ReferencedResourceNotProvisioned","message":"` + busy + `"}]`
	return map[string]message{
		// azuredisk-csi-driver issue 773, both.
		"Azure legacy, writes": refusalFor(303*time.Second, legacyAzure(302, 429, `{"error":{"code":"SubscriptionRequestsThrottled","message":"Number of write requests for subscription 'XYZ'`+
			` exceeded the limit of '1200' for time interval '01:00:00'. Please try again after '303' seconds."}}`)),
		"Azure legacy, its client waits":      other(legacyAzure(297, 0, "azure cloud provider throttled for operation DiskCreateOrUpdate with reason 'client throttled'")),
		"Azure legacy, its client waits long": other(legacyAzure(600, 0, "azure cloud provider throttled for operation LBCreateOrUpdate with reason 'client throttled'")),
		// pkg/retry/azure_error.go, GetRateLimitError.
		"Azure legacy, its client's rate": other(legacyAzure(0, 0, `azure cloud provider rate limited(write) for operation "LBCreateOrUpdate"`)),
		// terraform-provider-azurerm issue 19146.
		"Azure legacy, compute": refused(legacyAzure(0, 429, `{"error":{"code":"OperationNotAllowed","message":"The server rejected the request because too many requests have`+
			` been received for this subscription.","details":[{"code":"TooManyRequests","target":"HighCostGet30Min"}]}}`)),
		// cloud-provider-azure issue 792: 429, and no quota.
		"Azure legacy, 429 for its own failure": other(legacyAzure(0, 429, `{"Error":{"Details":[{"Code":"GatewayError","Message":"Error occurred in resource provider`+
			` infrastructure services."}],"Code":"RetryableError","Message":"A retryable error occurred."}}`)),
		// coreos/tectonic-installer issue 1460.
		"Azure legacy, 429 for a resource that is being changed": other(autorestError{
			PackageType: "network.LoadBalancersClient", Method: "CreateOrUpdate", Message: "Failure responding to request",
			StatusCode: 429, Original: text("autorest/azure: Service returned an error. Status=429 " + busyDetail),
		}),
		// gardener-extension-provider-azure issue 2: no status at all.
		"Azure legacy, a resource that is being changed": other(text(`Code="ReferencedResourceNotProvisioned" Message="` + busy + `"`)),
		// microsoft/AzureTRE issue 2222.
		"Azure legacy, another operation": other(text(`autorest/azure: Service returned an error. Status=<nil> Code="AnotherOperationInProgress" Message="Another operation` +
			` on this or dependent resource is in progress."`)),
		"Azure legacy, forbidden":   other(legacyAzure(0, 403, `{"error":{"code":"AuthorizationFailed","message":"The client does not have authorization."}}`)),
		"Azure legacy, 503 to wait": other(legacyAzure(60, 503, `{"error":{"code":"ServiceUnavailable","message":"The service is unavailable."}}`)),

		// azqr issue 34.
		"Azure, reads": refusalFor(372*time.Second, azcore(429, "ResourceRequestsThrottled", "Number of requests for action 'Microsoft.Network/loadBalancers/read' exceeded the limit of '50'"+
			" for time interval '00:05:00'. Please try again after '372' seconds.", nil)),
		// The Resource Manager's message that refers to aka.ms/arm-throttling.
		"Azure, minutes": refusalFor(5*time.Minute, azcore(429, "OperationNotAllowed", "Number of 'write' requests for subscription 'x' actor 'y' exceeded. Please try again after '5' minutes after"+
			" additional tokens are available.", nil)),
		"Azure, header":     inHeader(17*time.Second, azcore(429, "TooManyRequests", "The request is being throttled.", retryAfter("17"))),
		"Azure, long":       inHeader(MaxRetryAfter, azcore(429, "TooManyRequests", "The request is being throttled.", retryAfter("86400"))),
		"Azure, its client": other(&azureThrottleError{RetryAfter: time.Now().Add(90 * time.Second)}),
		// pkg/azclient/policy/ratelimit, ErrRateLimitReached.
		"Azure, its client's rate": other(text("rate limit reached")),
		// terraform-provider-azurerm issue 25417.
		"Azure, 429 for a resource that is being changed": other(azcore(429, "RetryableError", "A retryable error occurred.", retryAfter("10"))),
		"Azure, 429 for another operation":                other(azcore(429, "AnotherOperationInProgress", "Another operation on this or dependent resource is in progress.", nil)),
		"Azure, 429 in the words of terraform":            other(text("unexpected status 429 (429 Too Many Requests) with error: RetryableError: A retryable error occurred.")),
		"Azure, invalid":                                  other(azcore(400, "InvalidRequestFormat", "Cannot parse the request.", nil)),
		"Azure, etag":                                     other(azcore(412, "PreconditionFailed", "Precondition failed.", nil)),
		"Azure, cores":                                    other(azcore(409, "OperationNotAllowed", "Operation could not be completed as it results in exceeding approved Total Regional Cores quota.", nil)),
		"Azure, token":                                    other(azcore(401, "ExpiredAuthenticationToken", "The access token expiry UTC time is earlier than current UTC time.", nil)),
		"Azure, credentials":                              other(text("ClientSecretCredential authentication failed\nPOST https://login.microsoftonline.com/x/oauth2/v2.0/token\nRESPONSE 400 Bad Request\nAADSTS7000222: The provided client secret keys are expired")),
		"Azure, unavailable":                              other(azcore(503, "ServiceUnavailable", "The service is unavailable.", retryAfter("30"))),
	}
}

func googleMessages() map[string]message {
	const reads = "Quota exceeded for quota group 'ReadGroup' and limit 'Read requests per 100 seconds' of service 'compute.googleapis.com' for consumer 'project_number:123456'."
	const queries = "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute' of service 'compute.googleapis.com' for consumer 'project_number:123456'."
	return map[string]message{
		// terraform-provider-google issue 8360.
		"Google, reads":         refused(google(403, reads, "rateLimitExceeded", nil)),
		"Google, queries":       refused(google(403, queries, "rateLimitExceeded", nil)),
		"Google, the user's":    refused(google(403, "User Rate Limit Exceeded", "userRateLimitExceeded", nil)),
		"Google, 429":           inHeader(30*time.Second, google(429, "Resource has been exhausted (e.g. check quota).", "RESOURCE_EXHAUSTED", retryAfter("30"))),
		"Google, many reasons":  refused(&googleError{Code: 403, Message: queries, Errors: []googleErrorItem{{"rateLimitExceeded", "a"}, {"forbidden", "b"}}}),
		"Google, without JSON":  inHeader(2*time.Second, &googleError{Code: 429, Body: "<html>429</html>", Header: retryAfter("2")}),
		"Google, JSON in words": refused(text(`googleapi: got HTTP response code 403 with body: {"error":{"code": 403, "errors":[{"reason":"rateLimitExceeded"}]}}`)),
		"Google, gRPC":          refused(text("rpc error: code = ResourceExhausted desc = " + queries)),
		// google.rpc.RetryInfo in the details.
		"Google, delay": refusalFor(34500*time.Millisecond, text("googleapi: Error 429: "+queries+"\nDetails:\n[{\"@type\": \"type.googleapis.com/google.rpc.RetryInfo\", \"retryDelay\": \"34.5s\"}]")),
		// python-compute issue 279, in the format of k8s-cloud-provider's pkg/cloud/op.go: a rate of one resource.
		"Google, the rate of a resource": other(&googleError{Code: 403, Message: "RESOURCE_OPERATION_RATE_EXCEEDED - Operation rate exceeded for resource" +
			" 'projects/p/global/backendServices/b'. Too frequent operations from the source resource."}),
		"Google, a quota of rules": other(google(403, "Quota 'FORWARDING_RULES' exceeded. Limit: 75.0 globally.", "quotaExceeded", nil)),
		"Google, invalid":          other(google(400, "Invalid value for field 'resource.name': 'throttle_429'.", "invalid", nil)),
		"Google, not ready":        other(google(400, "The resource 'projects/p/zones/z/instances/i' is not ready", "resourceNotReady", nil)),
		"Google, in use":           other(google(400, "The firewall resource is already being used by 'rate-limit'", "resourceInUseByAnotherResource", nil)),
		"Google, not found":        other(google(404, "The resource 'projects/p/zones/z/instances/gke-429' was not found", "notFound", nil)),
		"Google, unavailable":      other(google(503, "Backend Error", "backendError", nil)),
		"Google, credentials":      other(text(`Get "https://compute.googleapis.com/compute/v1/projects/p": oauth2: cannot fetch token: 400 Bad Request Response: {"error":"invalid_grant"}`)),
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
		"gophercloud v1, 429":            inHeader(6*time.Second, gophercloud429{v1(429, "", retryAfter("6"))}),
		"gophercloud v1, unexpected 429": refused(v1(429, "", nil)),
		// cloudfoundry/bosh issues 99 and 597: services before Kilo say 413.
		"gophercloud v1, 413": refusalFor(6*time.Second, v1(413, `{"overLimit": {"code": 413, "message": "This request was rate-limited.", "details": "Only 10 POST request(s) can be made`+
			` to * every minute.", "retryAfter": "6"}}`, nil)),
		"gophercloud v1, invalid":      other(gophercloud400{v1(400, `{"faultcode": "Client", "faultstring": "Invalid input for field client_conn_throttle"}`, nil)}),
		"gophercloud v1, quota of FIP": other(gophercloud403{v1(403, `{"NeutronError": {"type": "OverQuota", "message": "Quota exceeded for resources: ['floatingip']."}}`, nil)}),
		"gophercloud v1, 503":          other(gophercloud503{v1(503, "", retryAfter("30"))}),
		// cluster-api-provider-openstack issue 1687.
		"gophercloud v1, busy":               other(v1(409, immutable, nil)),
		"gophercloud v2, 429":                inHeader(12*time.Second, gophercloud(429, "Rate limit exceeded", retryAfter("12"))),
		"gophercloud v2, busy":               other(gophercloud(409, immutable, nil)),
		"gophercloud v2, quota of balancers": other(gophercloud(403, `{"faultcode": "Client", "faultstring": "Quota has been met for resources: load_balancer", "debuginfo": null}`, nil)),
		"gophercloud v2, token":              other(gophercloud(401, `{"error": {"code": 401, "title": "Unauthorized"}}`, nil)),
		"gophercloud v2, internal":           other(gophercloud(500, `{"faultstring": "too many requests to the database"}`, nil)),
		"OVHcloud, 429":                      refused(ovhError{Class: "Client::TooManyRequests", Message: "Too many requests", Code: 429, QueryID: "EU.ext-3"}),
		"OVHcloud, invalid":                  other(ovhError{Class: "Client::BadRequest", Message: "Invalid IP", Code: 400, QueryID: "EU.ext-4"}),
	}
}

func otherMessages() map[string]message {
	return map[string]message{
		"hcloud, limit": refused(hcloudError{Code: "rate_limit_exceeded", Message: "limit of 3600 requests per hour reached"}),
		// hcloud-cloud-controller-manager issue 149: more targets than the type of load balancer has.
		"hcloud, targets":     other(hcloudError{Code: "resource_limit_exceeded", Message: "target limit exceeded"}),
		"hcloud, invalid":     other(hcloudError{Code: "invalid_input", Message: "invalid input in field 'name'"}),
		"hcloud, locked":      other(hcloudError{Code: "locked", Message: "load balancer is locked"}),
		"hcloud, failure":     other(hcloudError{Code: "service_error", Message: "internal error"}),
		"hcloud, token":       other(hcloudError{Code: "unauthorized", Message: "unable to authenticate"}),
		"hcloud, maintenance": other(hcloudError{Code: "maintenance", Message: "cannot perform operation due to maintenance"}),
		// csi-digitalocean issue 404; terraform-provider-digitalocean issue 546.
		"DigitalOcean, requests":   inHeader(3*time.Second, godo(429, "Too many requests", retryAfter("3"))),
		"DigitalOcean, limit":      refused(godo(429, "API Rate limit exceeded.", nil)),
		"DigitalOcean, body":       refused(text(`{"id":"too_many_requests","message":"API Rate limit exceeded."}`)),
		"DigitalOcean, two values": refused(text("GET https://api.digitalocean.com/v2/volumes?region=ams3: 429 Too many requests  status=500")),
		"DigitalOcean, invalid":    other(godo(422, "forwarding rules: throttle is not a known key", nil)),
		"DigitalOcean, failure":    other(godo(500, "Server Error", nil)),
		// cluster-api-provider-linode pull request 404.
		"Linode, 429":           inHeader(4*time.Second, &linodeError{Code: 429, Message: "Too many requests", Response: &http.Response{StatusCode: 429, Header: retryAfter("4")}}),
		"Linode, invalid":       other(linodeError{Code: 400, Message: "[client_conn_throttle] Must be between 0 and 20"}),
		"Linode, not found":     other(linodeError{Code: 404, Message: "Not found"}),
		"Linode, no connection": other(linodeError{Code: 2, Message: `Get "https://api.linode.com/v4/nodebalancers": EOF`}),
		// oci-cloud-controller-manager issues 60, 378 and 104; ManageIQ issue 22936.
		"OCI, requests":      refused(ociError{429, "TooManyRequests", "Too many requests for the tenants"}),
		"OCI, older":         refused(text("get subnets for backends: Status: 429; Code: TooManyRequests; OPC Request ID: /BDB7FC30/50F507; Message: User-rate limit exceeded.")),
		"OCI, service limit": other(ociError{400, "LimitExceeded", "The following service limits were exceeded: lb-100mbps-count."}),
		"OCI, older limit":   other(text("Service error:LimitExceeded. The following service limits were exceeded: lb-100mbps-count. . http status code: 400. Opc request id: 4e739ed5")),
		"OCI, etag":          other(text("update lb security list rules: Status: 412; Code: NoEtagMatch; OPC Request ID: /0BFAD5; Message: Entity security list has a computed tag")),
		"OCI, state":         other(ociError{409, "IncorrectState", "The load balancer is in state UPDATING"}),
		"OCI, credentials":   other(ociError{401, "NotAuthenticated", "The required information to complete authentication was not provided."}),
		"OCI, failure":       other(ociError{500, "InternalServerError", "Internal error occurred"}),
		// common/errors.go, getCircuitBreakerError: gobreaker's ErrTooManyRequests.
		"OCI, its client's breaker": other(text("too many requests, so this request was not sent to the LoadBalancer service.\n\n The circuit breaker was opened because the" +
			" LoadBalancer service failed too many times recently.")),
		// terraform-provider-vsphere issue 1314, with another number.
		"vSphere, gone":                other(text("ServerFaultCode: The object 'vim.VirtualMachine:vm-429' has already been deleted or has not been completely created")),
		"Yandex, a quota of balancers": other(text("rpc error: code = ResourceExhausted desc = Quota limit ylb.networkLoadBalancers.count exceeded")),
		// steampipe-plugin-alicloud issue 483.
		"Alibaba":        refused(text("SDK.ServerError\nErrorCode: Throttling.User\nRequestId: 1\nMessage: Request was denied due to user flow control.")),
		"Alibaba, words": other(text("Request was denied due to user flow control.")),
		// The error code APIGW.0308 of its API Gateway.
		"Huawei Cloud": other(text("The throttling threshold has been reached: policy user over ratelimit,limit:60,time:1 minute")),
		"Scaleway":     refused(text("scaleway-sdk-go: http error 429 Too Many Requests: too many requests")),
		// KubeVirt: the cloud is a Kubernetes API.
		"Kubernetes, requests": onlyTyped(refusalFor(5*time.Second, apierrors.NewTooManyRequests("the server is busy", 5))),
		"Kubernetes, conflict": onlyTyped(other(apierrors.NewConflict(schema.GroupResource{Resource: "services"}, "throttle", text("the object has been modified")))),
		// client-go, rest/request.go: the client's own limit.
		"Kubernetes, its client's rate": other(text("client rate limiter Wait returned an error: rate: Wait(n=1) would exceed context deadline")),
	}
}

// silent is an error that wraps another and does not show its text.
type silent struct{ err error }

func (e *silent) Error() string { return "no load balancer" }
func (e *silent) Unwrap() error { return e.err }

func TestMessagesOfClouds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		messages := sdkMessages()
		if len(messages) < 45 {
			t.Errorf("%d messages, want at least 45", len(messages))
		}
		for name, m := range messages {
			wrapped := fmt.Errorf("failed to ensure load balancer: %w", fmt.Errorf("prod/throttle-429: %w", m.err))
			if got := classOf(wrapped); got != m.typed {
				t.Errorf("%s, with its type:\n%v\ngot  %v\nwant %v", name, wrapped, got, m.typed)
			}
			if got := classOf(&silent{wrapped}); got != m.typed {
				t.Errorf("%s, behind another text:\n%v\ngot  %v\nwant %v", name, wrapped, got, m.typed)
			}
			if plain := fmt.Errorf("failed to ensure load balancer: prod/throttle-429: %v", m.err); classOf(plain) != m.plain {
				t.Errorf("%s, as a text:\n%v\ngot  %v\nwant %v", name, plain, classOf(plain), m.plain)
			}
			if plain := errors.New(m.err.Error()); classOf(plain) != m.plain {
				t.Errorf("%s, as a text alone:\n%v\ngot  %v\nwant %v", name, plain, classOf(plain), m.plain)
			}
		}
	})
}
