package environment

import (
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/mooring-ccm/mooring/localcluster"
)

// writes counts the writes of one user that the API server received within a span of time, by verb and resource. Those of the
// election's lease are counted apart.
func writes(events []auditv1.Event, user string, began, ended time.Time) (counts map[string]int, lease int) {
	counts = map[string]int{}
	for _, event := range events {
		at := event.RequestReceivedTimestamp.Time
		if event.User.Username != user || !localcluster.IsWrite(event) || at.Before(began) || at.After(ended) || event.ObjectRef == nil {
			continue
		}
		object := event.ObjectRef
		if object.Resource == "leases" && object.Name == leaseName {
			lease++
			continue
		}
		kind := event.Verb + " " + object.Resource
		if object.Subresource != "" {
			kind += "/" + object.Subresource
		}
		counts[kind]++
	}
	return counts, lease
}
