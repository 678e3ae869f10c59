package environment

import (
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
)

// requests are what one user asked the API server within a span of time, by verb and resource. Writes of the election's lease are counted apart.
type requests struct {
	writes, reads map[string]int
	leaseWrites   int
}

// requestsOf counts the requests of one user that the API server received within a span of time, and the watches that ended within it: those
// are on record only then.
func requestsOf(events []auditv1.Event, user string, began, ended time.Time) requests {
	counted := requests{writes: map[string]int{}, reads: map[string]int{}}
	for _, event := range events {
		at := event.RequestReceivedTimestamp.Time
		if event.Verb == "watch" {
			at = event.StageTimestamp.Time
		}
		if event.User.Username != user || at.Before(began) || at.After(ended) {
			continue
		}
		object := event.ObjectRef
		switch write := localcluster.IsWrite(event); {
		case write && object == nil:
		case write && object.Resource == "leases" && object.Name == harness.Lease:
			counted.leaseWrites++
		case write:
			counted.writes[harness.What(event)]++
		default:
			counted.reads[harness.What(event)]++
		}
	}
	return counted
}
