package octavia

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

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
	// Resource is of what there may be no more, as the service names it: "Load Balancer", "floatingip". Empty if it does not say.
	Resource string
	// Fault is what the service said.
	Fault string
	Err   error
}

// Error says what to do.
func (e *QuotaError) Error() string {
	of := ""
	if e.Resource != "" {
		of = " of " + e.Resource
	}
	return fmt.Sprintf("the project's quota%s is exhausted: raise it or delete unused resources: %s", of, e.Fault)
}

// Unwrap returns the error of the call.
func (e *QuotaError) Unwrap() error { return e.Err }

// additionalVIPs is the attribute of a load balancer for further VIPs.
const additionalVIPs = "additional_vips"

// fields are what octavia's faults of 501 name, and what of a Service that is.
var fields = []struct{ word, field string }{
	{additionalVIPs, dualStackField},
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
//   - 409 while the load balancer changes, 404 or 412 for a part that is gone since the look, and 503 of an octavia that counts quotas for
//     another creation in the project, is "come again" (api.RetryError);
//   - 501 is an *UnsupportedError, and terminal, as is 400 of an API before 2.26 (Zed) that knows no additional VIPs;
//   - 400 for a subnet, network or port that is "not found" may be tried again: octavia says that as well while it cannot ask neutron, an
//     outage of keystone for instance;
//   - a quota that is met is a *QuotaError, which may be tried again.
func classify(driver string, err error) error {
	err = session.Classify(err)
	var answer *session.AnswerError
	if !errors.As(err, &answer) || session.IsUnauthorized(err) {
		return err
	}
	if resource, met := session.Quota(err); met {
		return &QuotaError{Resource: resource, Fault: answer.Text, Err: answer}
	}
	switch {
	case answer.Status == http.StatusConflict && stillChanges(answer.Text):
		return again("octavia still works on it: " + answer.Text)
	case answer.Status == http.StatusServiceUnavailable && strings.Contains(answer.Text, "Unable to lock the project"):
		return again("octavia creates another one in the project: " + answer.Text)
	case answer.Status == http.StatusNotFound, answer.Status == http.StatusPreconditionFailed:
		return errors.Join(again("it changed since the last look: "+answer.Text), err)
	case answer.Status == http.StatusNotImplemented, answer.Status == http.StatusBadRequest && strings.Contains(answer.Text, additionalVIPs):
		return provider.Terminal(&UnsupportedError{Driver: driver, Field: fieldOf(answer.Text), Fault: answer.Text, Err: answer})
	case answer.Status == http.StatusBadRequest && strings.HasSuffix(strings.TrimSuffix(answer.Text, "."), " not found"):
		return answer
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

// isNotFound reports whether the service itself says that what was asked for by its ID does not exist. A 404 of something between here and
// the service does not.
func isNotFound(err error) bool { return session.IsMissing(session.Classify(err)) }
