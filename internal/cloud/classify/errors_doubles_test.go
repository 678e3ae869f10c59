package classify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// The errors of the clouds' SDKs, with the methods, exported fields and formats of the real ones: this module imports no SDK.

// smithyAPIError is github.com/aws/smithy-go.GenericAPIError.
type smithyAPIError struct {
	Code    string
	Message string
}

func (e *smithyAPIError) ErrorCode() string    { return e.Code }
func (e *smithyAPIError) ErrorMessage() string { return e.Message }
func (e *smithyAPIError) Error() string        { return fmt.Sprintf("api error %s: %s", e.Code, e.Message) }

// smithyResponse and smithyResponseError are Response and ResponseError of github.com/aws/smithy-go/transport/http.
type smithyResponse struct{ *http.Response }

type smithyResponseError struct {
	Response *smithyResponse
	Err      error
}

func (e *smithyResponseError) HTTPStatusCode() int { return e.Response.StatusCode }
func (e *smithyResponseError) Unwrap() error       { return e.Err }
func (e *smithyResponseError) Error() string {
	return fmt.Sprintf("http response error StatusCode: %d, %v", e.Response.StatusCode, e.Err)
}

// awsResponseError is github.com/aws/aws-sdk-go-v2/aws/transport/http.ResponseError.
type awsResponseError struct {
	*smithyResponseError
	RequestID string
}

func (e *awsResponseError) As(target any) bool { return errors.As(e.smithyResponseError, target) }
func (e *awsResponseError) Error() string {
	return fmt.Sprintf("https response error StatusCode: %d, RequestID: %s, %v", e.Response.StatusCode, e.RequestID, e.Err)
}

// smithyOperationError is github.com/aws/smithy-go.OperationError.
type smithyOperationError struct {
	ServiceID, OperationName string
	Err                      error
}

func (e *smithyOperationError) Unwrap() error { return e.Err }
func (e *smithyOperationError) Error() string {
	return fmt.Sprintf("operation error %s: %s, %v", e.ServiceID, e.OperationName, e.Err)
}

// awsMaxAttemptsError is github.com/aws/aws-sdk-go-v2/aws/retry.MaxAttemptsError.
type awsMaxAttemptsError struct {
	Attempt int
	Err     error
}

func (e *awsMaxAttemptsError) Unwrap() error { return e.Err }
func (e *awsMaxAttemptsError) Error() string {
	return fmt.Sprintf("exceeded maximum number of attempts, %d, %v", e.Attempt, e.Err)
}

// awsTokenError is what Standard.GetRetryToken of aws-sdk-go-v2/aws/retry returns when the SDK has repeated too many calls.
func awsTokenError() error {
	return fmt.Errorf("failed to get rate limit token, %w", errors.New("retry quota exceeded, 4 available, 5 requested"))
}

func awsV2(status int, code, message string) error {
	response := &http.Response{StatusCode: status, Header: http.Header{}}
	return &awsResponseError{&smithyResponseError{&smithyResponse{response}, &smithyAPIError{code, message}}, "5b9b9a1d-ddfb-424e"}
}

func awsOperation(service, operation string, err error) error {
	return &smithyOperationError{service, operation, err}
}

// awsV1Error is requestError of github.com/aws/aws-sdk-go/aws/awserr, with its methods and format. It does not unwrap.
type awsV1Error struct {
	code, message string
	status        int
	orig          error
}

func (e awsV1Error) Code() string      { return e.code }
func (e awsV1Error) Message() string   { return e.message }
func (e awsV1Error) OrigErr() error    { return e.orig }
func (e awsV1Error) StatusCode() int   { return e.status }
func (e awsV1Error) RequestID() string { return "748f2f2a" }
func (e awsV1Error) Error() string {
	text := fmt.Sprintf("%s: %s", e.code, e.message)
	if e.status != 0 {
		text += fmt.Sprintf("\n\tstatus code: %d, request id: %s", e.status, e.RequestID())
	}
	if e.orig != nil {
		text += fmt.Sprintf("\ncaused by: %s", e.orig)
	}
	return text
}

// azcoreError is github.com/Azure/azure-sdk-for-go/sdk/azcore.ResponseError.
type azcoreError struct {
	ErrorCode   string
	StatusCode  int
	RawResponse *http.Response

	body string
}

func (e *azcoreError) Error() string {
	line := strings.Repeat("-", 80)
	var indented bytes.Buffer
	if json.Indent(&indented, []byte(e.body), "", "  ") != nil {
		indented.WriteString(e.body)
	}
	return fmt.Sprintf("PUT https://management.azure.com/subscriptions/x/loadBalancers/kubernetes\n%s\nRESPONSE %d: %d %s\nERROR CODE: %s\n%s\n%s\n%s\n",
		line, e.StatusCode, e.StatusCode, http.StatusText(e.StatusCode), e.ErrorCode, line, indented.String(), line)
}

func azcore(status int, code, message string, header http.Header) error {
	body, _ := json.Marshal(map[string]any{"error": map[string]any{"code": code, "message": message}})
	return &azcoreError{code, status, &http.Response{StatusCode: status, Header: header}, string(body)}
}

// azureThrottleError is sigs.k8s.io/cloud-provider-azure/pkg/azclient/policy/retryrepectthrottled.ThrottleError.
type azureThrottleError struct{ RetryAfter time.Time }

func (e *azureThrottleError) Error() string { return "throttled due to too many requests" }

// autorestError is github.com/Azure/go-autorest/autorest.DetailedError, whose status is an interface.
type autorestError struct {
	Original                     error
	PackageType, Method, Message string
	StatusCode                   any
	Response                     *http.Response
}

func (e autorestError) Unwrap() error { return e.Original }
func (e autorestError) Error() string {
	return fmt.Sprintf("%s#%s: %s: StatusCode=%d -- Original Error: %v", e.PackageType, e.Method, e.Message, e.StatusCode, e.Original)
}

// legacyAzure is what Error of cloud-provider-azure/pkg/retry.Error returns. The type itself is no error, so only its text arrives.
func legacyAzure(seconds, status int, raw string) error {
	return fmt.Errorf("Retriable: false, RetryAfter: %ds, HTTPStatusCode: %d, RawError: %w", seconds, status, errors.New(raw))
}

// googleError is google.golang.org/api/googleapi.Error.
type googleError struct {
	Code    int
	Message string
	Body    string
	Header  http.Header
	Errors  []googleErrorItem
}

type googleErrorItem struct{ Reason, Message string }

func (e *googleError) Error() string {
	if len(e.Errors) == 0 && e.Message == "" {
		return fmt.Sprintf("googleapi: got HTTP response code %d with body: %v", e.Code, e.Body)
	}
	text := fmt.Sprintf("googleapi: Error %d: %s", e.Code, e.Message)
	if len(e.Errors) == 1 && e.Errors[0].Message == e.Message {
		return text + ", " + e.Errors[0].Reason
	}
	if len(e.Errors) > 0 {
		text += "\nMore details:\n"
	}
	for _, item := range e.Errors {
		text += fmt.Sprintf("Reason: %s, Message: %s\n", item.Reason, item.Message)
	}
	return text
}

func google(status int, message, reason string, header http.Header) error {
	return &googleError{Code: status, Message: message, Header: header, Errors: []googleErrorItem{{reason, message}}}
}

// gophercloudUnexpected is github.com/gophercloud/gophercloud.ErrUnexpectedResponseCode; v2 ends its format otherwise.
type gophercloudUnexpected struct {
	URL, Method    string
	Expected       []int
	Actual         int
	Body           []byte
	ResponseHeader http.Header

	v1 bool
}

func (e gophercloudUnexpected) GetStatusCode() int { return e.Actual }
func (e gophercloudUnexpected) Error() string {
	end := ": "
	if e.v1 {
		end = "\n"
	}
	return fmt.Sprintf("Expected HTTP response code %v when accessing [%s %s], but got %d instead%s%s", e.Expected, e.Method, e.URL, e.Actual, end, e.Body)
}

// gophercloud400, 403 and 429 are v1's ErrDefault400 and its like, which embed the error and have words of their own.
type (
	gophercloud400 struct{ gophercloudUnexpected }
	gophercloud403 struct{ gophercloudUnexpected }
	gophercloud429 struct{ gophercloudUnexpected }
	gophercloud503 struct{ gophercloudUnexpected }
)

func (e gophercloud400) Error() string {
	return fmt.Sprintf("Bad request with: [%s %s], error message: %s", e.Method, e.URL, e.Body)
}

func (e gophercloud403) Error() string {
	return fmt.Sprintf("Request forbidden: [%s %s], error message: %s", e.Method, e.URL, e.Body)
}

func (e gophercloud429) Error() string {
	return "Too many requests have been sent in a given amount of time. Pause requests, wait up to one minute, and try again."
}

func (e gophercloud503) Error() string {
	return "The service is currently unable to handle the request due to a temporary overloading or maintenance. This is a temporary condition. Try again later."
}

func gophercloud(status int, body string, header http.Header) gophercloudUnexpected {
	return gophercloudUnexpected{
		URL: "https://octavia/v2.0/lbaas/listeners", Method: "POST", Expected: []int{201, 202}, Actual: status,
		Body: []byte(body), ResponseHeader: header,
	}
}

// hcloudError is github.com/hetznercloud/hcloud-go/v2/hcloud.Error, whose code has a type of its own.
type (
	hcloudCode  string
	hcloudError struct {
		Code    hcloudCode
		Message string
		Details any
	}
)

func (e hcloudError) Error() string { return fmt.Sprintf("%s (%s, 7c9c93094c44)", e.Message, e.Code) }

// godoError is github.com/digitalocean/godo.ErrorResponse.
type godoError struct {
	Response  *http.Response
	Message   string
	RequestID string
	Attempts  int
}

func (e *godoError) Error() string {
	return fmt.Sprintf("%v %v: %d (request %q) %v", e.Response.Request.Method, e.Response.Request.URL, e.Response.StatusCode, e.RequestID, e.Message)
}

func godo(status int, message string, header http.Header) error {
	request := &http.Request{Method: http.MethodPost, URL: &url.URL{Scheme: "https", Host: "api.digitalocean.com", Path: "/v2/load_balancers"}}
	return &godoError{Response: &http.Response{StatusCode: status, Header: header, Request: request}, Message: message, RequestID: "4f0d"}
}

// linodeError is github.com/linode/linodego.Error.
type linodeError struct {
	Response *http.Response
	Code     int
	Message  string
}

func (e linodeError) StatusCode() int { return e.Code }
func (e linodeError) Error() string   { return fmt.Sprintf("[%03d] %s", e.Code, e.Message) }

// ociError is servicefailure of github.com/oracle/oci-go-sdk/v65/common, a ServiceError.
type ociError struct {
	StatusCode    int
	Code, Message string
}

func (e ociError) GetHTTPStatusCode() int  { return e.StatusCode }
func (e ociError) GetCode() string         { return e.Code }
func (e ociError) GetMessage() string      { return e.Message }
func (e ociError) GetOpcRequestID() string { return "4e739ed5" }
func (e ociError) Error() string {
	return fmt.Sprintf("Error returned by LoadBalancer Service. Http Status Code: %d. Error Code: %s. Opc request id: %s. Message: %s\n"+
		"Operation Name: CreateLoadBalancer\nTimestamp: 2026-03-06 10:00:00 +0000 GMT\nClient Version: Oracle-GoSDK/65.90.0\n"+
		"Request Endpoint: POST https://iaas.us-ashburn-1.oraclecloud.com/20170115/loadBalancers", e.StatusCode, e.Code, e.GetOpcRequestID(), e.Message)
}

// ovhError is github.com/ovh/go-ovh/ovh.APIError.
type ovhError struct {
	Class, Message string
	Code           int
	QueryID        string
}

func (e ovhError) Error() string {
	return fmt.Sprintf("OVHcloud API error (status code %d): %s: %q (X-OVH-Query-Id: %s)", e.Code, e.Class, e.Message, e.QueryID)
}
