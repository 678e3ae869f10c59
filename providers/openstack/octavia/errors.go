package octavia

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/session"
)

// comeAgain is when to look again at a load balancer that octavia still works on. The driver ovn needs less than a second for most
// changes and amphora some seconds for one; a look costs one call.
const comeAgain = 2 * time.Second

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

// classify gives an error of a call the type by which the manager decides. Beyond session.Classify:
//
//   - 409 while the load balancer changes, and 404 or 412 for a part that is gone since the look, is "come again" (api.RetryError);
//   - 501 is an *UnsupportedError, and terminal;
//   - a quota that is met is a *QuotaError, which may be tried again.
func classify(driver string, err error) error {
	err = session.Classify(err)
	var answer *session.AnswerError
	if !errors.As(err, &answer) || session.IsUnauthorized(err) {
		return err
	}
	switch {
	case session.IsQuota(err):
		return &QuotaError{Fault: answer.Text, Err: answer}
	case answer.Status == http.StatusConflict && stillChanges(answer.Text):
		return again("octavia still works on it: " + answer.Text)
	case answer.Status == http.StatusNotFound, answer.Status == http.StatusPreconditionFailed:
		return errors.Join(again("it changed since the last look: "+answer.Text), err)
	case answer.Status == http.StatusNotImplemented:
		return provider.Terminal(&UnsupportedError{Driver: driver, Field: fieldOf(answer.Text), Fault: answer.Text, Err: answer})
	default:
		return err
	}
}

// stillChanges reports whether octavia refuses a change because another one is under way. It says that a pool is the default already while
// the one before it is being deleted.
func stillChanges(text string) bool {
	return slices.ContainsFunc([]string{"immutable", "Invalid state", "already has a default pool"}, func(words string) bool {
		return strings.Contains(text, words)
	})
}

func again(why string) error { return cloudproviderapi.NewRetryError(why, comeAgain) }

func fieldOf(fault string) string {
	for _, entry := range fields {
		if strings.Contains(fault, entry.word) {
			return entry.field
		}
	}
	return ""
}

// isNotFound reports whether the service says that what was asked for by its ID does not exist.
func isNotFound(err error) bool { return gophercloud.ResponseCodeIs(err, http.StatusNotFound) }
