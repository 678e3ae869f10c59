package octavia

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/provider"
)

// comeAgain is when to look again at a load balancer that octavia still works on. The driver ovn needs less than a second for most
// changes and amphora some seconds for one; a look costs one call.
const comeAgain = 2 * time.Second

// maxFault is how much of what octavia says goes into an error, in characters.
const maxFault = 500

// UnsupportedError says that octavia's driver cannot do what the Service asks for. It is terminal.
type UnsupportedError struct {
	// Driver is the driver, and Field what of the Service it cannot do; empty if octavia's answer does not show it.
	Driver, Field string
	// Fault is octavia's answer.
	Fault string
	Err   error
}

// Error names driver and field.
func (e *UnsupportedError) Error() string {
	field := e.Field
	if field == "" {
		field = "what the Service asks for"
	}
	return fmt.Sprintf("octavia's driver %q cannot do %s: %s", e.Driver, field, e.Fault)
}

// Unwrap returns the error of the call.
func (e *UnsupportedError) Unwrap() error { return e.Err }

// QuotaError says that the project has as many load balancers, listeners, floating IPs or other things as it may have.
type QuotaError struct {
	// Fault is what the service said: it names the resource.
	Fault string
	Err   error
}

// Error says what to do.
func (e *QuotaError) Error() string {
	return fmt.Sprintf("the project's quota is met: raise it or delete what is not needed: %s", e.Fault)
}

// Unwrap returns the error of the call.
func (e *QuotaError) Unwrap() error { return e.Err }

// fields are what octavia's faults of 501 name, and what of a Service that is.
var fields = []struct{ word, field string }{
	{"allowed_cidrs", "spec.loadBalancerSourceRanges (allowed CIDRs)"},
	{"TERMINATED_HTTPS", "annotation loadbalancer.openstack.org/default-tls-container-ref (TLS termination)"},
	{"PROXY", "annotation loadbalancer.openstack.org/proxy-protocol"},
	{"HTTP", "annotation loadbalancer.openstack.org/x-forwarded-for (HTTP listener)"},
	{"algorithm", "annotation loadbalancer.openstack.org/lb-method"},
	{"failover", "a failover"},
	{"flavor", "annotation loadbalancer.openstack.org/flavor-id"},
}

// classify gives an error of a call the type by which the manager decides:
//
//   - 409 while the load balancer changes, and 404 for a part that is gone since the look, is "come again" (api.RetryError);
//   - 501 is an *UnsupportedError, and like 400, 401 and 403 a provider.TerminalError;
//   - a quota that is met is a *QuotaError, which may be tried again;
//   - 429, and 503 that says when, is a provider.ThrottledError;
//   - all others stay as they are.
func classify(driver string, err error) error {
	var answer gophercloud.ErrUnexpectedResponseCode
	if err == nil || !errors.As(err, &answer) {
		return err
	}
	fault := faultOf(answer.Body)
	wrapped := &refusal{text: fmt.Sprintf("%s %s: status %d: %s", answer.Method, answer.URL, answer.Actual, fault), err: err}
	wait := retryAfter(answer.ResponseHeader)
	switch answer.Actual {
	case http.StatusConflict:
		switch {
		case strings.Contains(fault, "immutable"), strings.Contains(fault, "Invalid state"),
			strings.Contains(fault, "already has a default pool"): // whose deletion is in progress: octavia looks at that first
			return again("octavia still works on it: " + fault)
		case strings.Contains(fault, "OverQuota"), strings.Contains(fault, "Quota exceeded"):
			return &QuotaError{Fault: fault, Err: wrapped}
		}
		return wrapped
	case http.StatusNotFound, http.StatusPreconditionFailed:
		return errors.Join(again("it changed since the last look: "+fault), wrapped)
	case http.StatusNotImplemented:
		return provider.Terminal(&UnsupportedError{Driver: driver, Field: fieldOf(fault), Fault: fault, Err: wrapped})
	case http.StatusForbidden:
		if strings.Contains(fault, "Quota has been met") {
			return &QuotaError{Fault: fault, Err: wrapped}
		}
		return provider.Terminal(wrapped)
	case http.StatusBadRequest, http.StatusUnauthorized:
		return provider.Terminal(wrapped)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if answer.Actual == http.StatusTooManyRequests || wait > 0 {
			return provider.Throttled(wait, wrapped)
		}
	}
	return wrapped
}

// refusal is a service's answer with a status that was not expected. Its text is shorter than gophercloud's, which holds the whole body.
type refusal struct {
	text string
	err  error
}

func (e *refusal) Error() string { return e.text }
func (e *refusal) Unwrap() error { return e.err }

func again(why string) error { return cloudproviderapi.NewRetryError(why, comeAgain) }

func fieldOf(fault string) string {
	for _, entry := range fields {
		if strings.Contains(fault, entry.word) {
			return entry.field
		}
	}
	return ""
}

// faultOf is what an answer says: octavia's faultstring, neutron's type and message, or the body.
func faultOf(body []byte) string {
	var answer struct {
		Fault   string `json:"faultstring"`
		Neutron struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"NeutronError"`
		Description string `json:"description"`
	}
	text := string(body)
	if json.Unmarshal(body, &answer) == nil {
		switch {
		case answer.Fault != "":
			text = answer.Fault
		case answer.Neutron.Message != "":
			text = answer.Neutron.Type + ": " + answer.Neutron.Message
		case answer.Description != "":
			text = answer.Description
		}
	}
	return message.Line(text, maxFault)
}

func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// isNotFound reports whether the service says that what was asked for by its ID does not exist.
func isNotFound(err error) bool { return gophercloud.ResponseCodeIs(err, http.StatusNotFound) }
